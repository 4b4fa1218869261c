#include "metaserver/service/server_parts.h"

#include <algorithm>

namespace kintsugi::metaserver {

UsableServers ServerParts::usable_servers(const std::vector<ServerId>& exclude, uint64_t chunk_bytes) const {
  UsableServers usable;
  usable.needed_bytes = chunk_bytes;
  for (const auto& [id, server] : registry.servers()) {
    const bool suspect = server.liveness == proto::ServerState::SUSPECT;
    const bool maintained = registry.in_maintenance(server);
    if (suspect && !server.registered && !server.stored.draining() && !maintained) ++usable.expected;
    if (server.liveness != proto::ServerState::ALIVE) continue;
    ++usable.alive;
    // A server that has registered but not sent its first heartbeat yet is taken at its word.
    const bool measured = server.load.server_id() != 0;
    const uint64_t free_bytes = measured ? server.load.free_bytes() : chunk_bytes;
    if (server.stored.draining()) {
      ++usable.draining;
    } else if (std::find(exclude.begin(), exclude.end(), id) != exclude.end()) {
      ++usable.excluded;
    } else if (free_bytes < chunk_bytes) {
      ++usable.full;
    } else {
      usable.servers.push_back({id, server.stored.rack(), free_bytes, maintained || slow.contains(id)});
    }
  }
  return usable;
}

}  // namespace kintsugi::metaserver
