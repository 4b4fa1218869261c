#include "metaserver/cluster/monitor_lease.h"

#include <algorithm>

#include <fmt/format.h>

namespace kintsugi::metaserver {

Status MonitorLease::renew(Monitor monitor) {
  const std::optional<Monitor> living = find();
  if (living && living->id != monitor.id) {
    // One that lost its place would otherwise take it back, and both would continue in turns.
    if (std::ranges::find(replaced_, monitor.id) != replaced_.end())
      return {Code::kConflict, fmt::format("the monitor at {} was started later", living->address)};
    replaced_.push_back(living->id);
    if (replaced_.size() > kMaxReplaced) replaced_.pop_front();
  }
  std::erase(replaced_, monitor.id);
  monitor_ = std::move(monitor);
  lease_end_ = clock_.now() + kLease;
  return {};
}

void MonitorLease::leave(uint64_t id) {
  if (id == monitor_.id) lease_end_.reset();
}

std::optional<MonitorLease::Monitor> MonitorLease::find() const {
  if (!lease_end_ || clock_.now() >= *lease_end_) return {};
  return monitor_;
}

}  // namespace kintsugi::metaserver
