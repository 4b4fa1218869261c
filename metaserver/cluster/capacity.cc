#include "metaserver/cluster/capacity.h"

#include <algorithm>
#include <map>

namespace kintsugi::metaserver {
namespace {

/// The most bytes that a chunk of every index can have in all when each server has at most one chunk of a stripe: the
/// largest level for which the servers have `chunks` times as much room, none of them giving more than the level.
uint64_t level_of(std::vector<uint64_t> free, uint64_t chunks) {
  if (free.size() < chunks) return 0;
  std::sort(free.begin(), free.end());
  uint64_t below = 0;  // sum of the free bytes of the servers that are full at the level
  for (size_t full = 0;; ++full) {
    const uint64_t others = free.size() - full;
    if (others < chunks) {
      const uint64_t level = below / (chunks - others);
      if (others == 0 || level <= free[full]) return level;
    }
    below += free[full];
  }
}

}  // namespace

Capacity capacity_of(std::span<const ServerSpace> servers, const erasure::Policy& policy) {
  struct Device {
    uint64_t total = 0, free = 0, users = 0;
  };
  Capacity capacity;
  std::map<uint64_t, Device> shared;
  for (const ServerSpace& server : servers) {
    for (const DeviceSpace& space : server.devices) {
      if (space.device == 0) {
        capacity.total_bytes += space.total_bytes;
        capacity.free_bytes += space.free_bytes;
        continue;
      }
      // Servers looked at a shared device at different moments: the least that any saw is free.
      Device& device = shared[space.device];
      device.free = device.users == 0 ? space.free_bytes : std::min(device.free, space.free_bytes);
      device.total = std::max(device.total, space.total_bytes);
      device.users += 1;
    }
  }
  for (const auto& [id, device] : shared) {
    capacity.total_bytes += device.total;
    capacity.free_bytes += device.free;
  }
  std::vector<uint64_t> free;
  for (const ServerSpace& server : servers) {
    if (!server.takes_chunks) continue;
    uint64_t bytes = 0;
    for (const DeviceSpace& space : server.devices) {
      const auto device = shared.find(space.device);
      bytes += space.device == 0 ? space.free_bytes : device->second.free / device->second.users;
    }
    free.push_back(bytes);
  }
  capacity.storable_bytes = level_of(std::move(free), policy.chunks()) * policy.k;
  return capacity;
}

}  // namespace kintsugi::metaserver
