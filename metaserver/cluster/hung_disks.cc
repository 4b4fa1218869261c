#include "metaserver/cluster/hung_disks.h"

namespace kintsugi::metaserver {

bool HungDisks::told(const proto::HeartbeatRequest& heartbeat, TimePoint now, Duration patience) {
  bool changed = false;
  std::map<uint32_t, Disk> hung;
  for (const proto::DiskState& state : heartbeat.disk_states()) {
    if (state.health() != proto::DiskState::HUNG) continue;
    const auto known = hung_.find(state.disk());
    Disk disk = known == hung_.end() ? Disk{.since = now, .last = now} : known->second;
    disk.last = now;
    if (!disk.given_up && now - disk.since >= patience) {
      disk.given_up = true;
      changed = true;
    }
    hung.emplace(state.disk(), disk);
  }
  for (const auto& [number, disk] : hung_) {
    if (hung.contains(number)) continue;
    // One that was not given up yet is remembered for a while, so that one which hangs again and again is given up,
    // too.
    if (!disk.given_up && now - disk.last < kWellAfter) {
      hung.emplace(number, disk);
    } else {
      changed = changed || disk.given_up;
    }
  }
  hung_ = std::move(hung);
  return changed;
}

bool HungDisks::given_up(uint32_t disk) const {
  const auto found = hung_.find(disk);
  return found != hung_.end() && found->second.given_up;
}

}  // namespace kintsugi::metaserver
