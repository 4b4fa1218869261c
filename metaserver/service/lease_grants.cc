#include "metaserver/service/lease_grants.h"

#include <algorithm>

#include "metaserver/namespace/inodes.h"

namespace kintsugi::metaserver {

bool LeaseGrants::may_keep_back(InodeId inode) {
  const auto stored = Reader(store_).get_message<proto::StoredInode>(keys::inode(inode));
  return stored && may_keep_back(*stored);
}

bool LeaseGrants::may_keep_back(const proto::StoredInode& inode) {
  const TimePoint now = clock_.now();
  if (!known_until_ || now >= *known_until_) {
    known_until_ = now + StoreRoom::kInterval;
    has_room_ = have_room();
  }
  if (!has_room_) return false;
  const bool of_file = inode.type() == proto::Attributes::FILE;
  return inode.quota() == 0 && (of_file || (is_directory(inode) && !inode.has_xattrs()));
}

bool LeaseGrants::have_room() const {
  const auto is_short = [](const auto& one) {
    if (one.second.liveness != proto::ServerState::ALIVE) return false;
    uint64_t free = 0;
    for (const proto::DeviceSpace& device : one.second.load.devices())
      free += device.free_bytes();
    return !one.second.load.devices().empty() && free < kReserve;
  };
  return room_.has(StoreRoom::kReserveBytes) && std::ranges::none_of(servers_.servers(), is_short);
}

}  // namespace kintsugi::metaserver
