#include "metaserver/repair/repair_log.h"

#include <algorithm>

namespace kintsugi::metaserver {

void RepairLog::append(proto::RepairEvent event) {
  events_.push_back(std::move(event));
  if (events_.size() <= kMaxEvents) return;
  events_.pop_front();
  ++first_;
}

void RepairLog::read(uint64_t after, uint32_t limit,
                     const std::function<bool(const proto::RepairEvent&)>& wanted,
                     proto::FetchRepairWorkResponse& answer) const {
  const uint64_t end = first_ + events_.size();
  if (after + 1 < first_ || after >= end) {
    answer.set_start_over(true);
    answer.set_last(end - 1);
    return;
  }
  const uint32_t most = limit == 0 ? kMaxAnswer : std::min(limit, kMaxAnswer);
  size_t at = after + 1 - first_;
  const size_t examined_end = std::min(events_.size(), at + kMaxExamined);
  for (; at < examined_end && answer.events_size() < static_cast<int>(most); ++at)
    if (wanted(events_[at])) *answer.add_events() = events_[at];
  answer.set_last(first_ + at - 1);
  answer.set_more(at < events_.size());
}

}  // namespace kintsugi::metaserver
