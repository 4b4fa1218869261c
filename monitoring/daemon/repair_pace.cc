#include "monitoring/daemon/repair_pace.h"

namespace kintsugi::monitoring {

void RepairPace::told(TimePoint now, const proto::RepairStatusResponse& repairs) {
  const bool idle = repairs.queued() == 0 && repairs.running().empty();
  if (idle || (!answers_.empty() && repairs.done() < answers_.back().done)) answers_.clear();
  if (idle) return;
  answers_.push_back({now, repairs.done()});
  while (now - answers_.front().at > kWindow)
    answers_.pop_front();
}

std::optional<double> RepairPace::chunks_per_second() const {
  if (answers_.empty()) return {};
  const uint64_t chunks = answers_.back().done - answers_.front().done;
  const Duration time = answers_.back().at - answers_.front().at;
  if (chunks < kLeastChunks || time < kLeastTime) return {};
  return static_cast<double>(chunks) / to_seconds(time);
}

}  // namespace kintsugi::monitoring
