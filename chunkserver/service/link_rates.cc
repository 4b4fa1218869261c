#include "chunkserver/service/link_rates.h"

namespace kintsugi::chunkserver {

void LinkRates::probed(double up, double down) {
  probes_.push_back({up, down});
  if (probes_.size() > kProbesKept) probes_.pop_front();
}

uint64_t LinkRates::up() const {
  if (configured_up_ > 0) return configured_up_;
  if (probes_.empty()) return 0;
  double best = traffic_.up.per_second(clock_.now());
  for (const Probe& probe : probes_)
    best = std::max(best, probe.up);
  return static_cast<uint64_t>(best);
}

uint64_t LinkRates::down() const {
  if (configured_down_ > 0) return configured_down_;
  if (probes_.empty()) return 0;
  double best = traffic_.down.per_second(clock_.now());
  for (const Probe& probe : probes_)
    best = std::max(best, probe.down);
  return static_cast<uint64_t>(best);
}

}  // namespace kintsugi::chunkserver
