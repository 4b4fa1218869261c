#include "metaserver/service/server_state.h"

#include "metaserver/schema/stripes.h"

namespace kintsugi::metaserver {

proto::ServerState server_state(const ServerRecord& server, const ServerParts& servers,
                                const BlockReports& reports, const Rebalancer& rebalancer,
                                const Reader& reader) {
  proto::ServerState state = servers.registry.state_of(server);
  state.set_cached_chunks(servers.caches.cached_chunks(server.id));
  if (const proto::SlowServer* why = servers.slow.find(server.id)) *state.mutable_slow() = *why;
  if (auto held = rebalancer.held_back(server.id)) *state.mutable_held_back() = std::move(*held);
  state.set_reported(reports.reported(server));
  state.set_repair_limit_bytes_per_second(
      servers.repair_limit.at_server(state.repair_limit_bytes_per_second()));
  // Its last heartbeat may not count yet what was placed there just now: it must not look drained.
  if (server.stored.draining() && state.chunks() == 0 && holds_chunks(reader, server.id)) state.set_chunks(1);
  return state;
}

}  // namespace kintsugi::metaserver
