#include "chunkserver/service/load_report.h"

#include <algorithm>

namespace kintsugi::chunkserver {

LoadReport::LoadReport(const runtime::Clock& clock, const ServiceCounters& counters, const ChunkStore& store,
                       const LinkRates& rates, std::function<double()> cpu_seconds)
    : clock_(clock),
      counters_(counters),
      store_(store),
      rates_(rates),
      cpu_seconds_(std::move(cpu_seconds)),
      before_(totals()) {}

LoadReport::Totals LoadReport::totals() const {
  Totals totals;
  totals.when = clock_.now();
  totals.user_bytes = counters_.user_bytes;
  // Everything on the link that is neither a chunk that users or repairs read or write nor a probe is a sum of a
  // repair; heartbeats and headers are less than a thousandth of it.
  const uint64_t others = counters_.bytes_read + counters_.bytes_written + counters_.probe_bytes;
  const uint64_t all = rates_.traffic().bytes_sent + rates_.traffic().bytes_received;
  totals.repair_bytes = all - std::min(all, others);
  totals.cpu_seconds = cpu_seconds_ ? cpu_seconds_() : 0;
  totals.disks_busy = store_.disk_busy_times();
  return totals;
}

double LoadReport::busy_share(const Totals& before, const Totals& now, double elapsed) {
  double most = (now.cpu_seconds - before.cpu_seconds) / elapsed;
  for (size_t i = 0; i < now.disks_busy.size(); ++i)
    most = std::max(most, to_seconds(now.disks_busy[i] - before.disks_busy[i]) / elapsed);
  return std::clamp(most, 0.0, 1.0);
}

void LoadReport::fill(proto::HeartbeatRequest& request) {
  const Totals now = totals();
  const double elapsed = to_seconds(now.when - before_.when);
  request.set_repairs(counters_.repairs_running);
  request.set_cpu_seconds(now.cpu_seconds);
  request.set_up_bytes_per_second(rates_.up());
  request.set_down_bytes_per_second(rates_.down());
  if (elapsed <= 0) return;
  const auto rate = [&](uint64_t bytes) {
    return static_cast<uint64_t>(static_cast<double>(bytes) / elapsed);
  };
  request.set_user_bytes_per_second(rate(now.user_bytes - before_.user_bytes));
  request.set_repair_bytes_per_second(
      rate(now.repair_bytes - std::min(now.repair_bytes, before_.repair_bytes)));
  request.set_busy(busy_share(before_, now, elapsed));
  before_ = now;
}

}  // namespace kintsugi::chunkserver
