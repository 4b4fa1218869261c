#include "metaserver/service/servers_room.h"

namespace kintsugi::metaserver {

Capacity capacity_now(const ServerRegistry& registry, const erasure::Policy& policy) {
  std::vector<ServerSpace> servers;
  for (const auto& [id, server] : registry.servers()) {
    if (server.liveness == proto::ServerState::DEAD) continue;
    ServerSpace& space = servers.emplace_back();
    space.takes_chunks = server.liveness == proto::ServerState::ALIVE && !server.stored.draining();
    for (const proto::DeviceSpace& device : server.load.devices())
      space.devices.push_back({device.device(), device.total_bytes(), device.free_bytes()});
  }
  return capacity_of(servers, policy);
}

proto::Room servers_room(const ServerParts& parts, const erasure::Policy& policy, uint64_t chunk_bytes) {
  const Capacity capacity = capacity_now(parts.registry, policy);
  const UsableServers usable = parts.usable_servers({}, chunk_bytes);
  const size_t servers = usable.servers.size() + usable.full;
  proto::Room room;
  room.set_total_bytes(capacity.total_bytes);
  room.set_free_bytes(capacity.free_bytes);
  room.set_needed_bytes(chunk_bytes);
  room.set_servers(static_cast<uint32_t>(servers));
  room.set_full_servers(static_cast<uint32_t>(usable.full));
  room.set_full(usable.servers.size() < policy.chunks() && servers >= policy.chunks());
  return room;
}

}  // namespace kintsugi::metaserver
