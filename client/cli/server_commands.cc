// server list, drain, undrain, remove.
#include <cstdio>

#include "client/cli/commands.h"
#include "client/cli/format.h"
#include "client/cli/session.h"

namespace kintsugi::cli {
namespace {

using client::BlockingClient;

/// The measured speed of the server's link, up and down in MB/s ("118/118"), or "-" while it is not known.
std::string link_text(const proto::ServerState& server) {
  if (server.up_bytes_per_second() == 0 && server.down_bytes_per_second() == 0) return "-";
  return fmt::format("{}/{}",
                     static_cast<uint64_t>(static_cast<double>(server.up_bytes_per_second()) / 1e6 + 0.5),
                     static_cast<uint64_t>(static_cast<double>(server.down_bytes_per_second()) / 1e6 + 0.5));
}

std::string state_text(const proto::ServerState& server) {
  std::string state = liveness_text(server.liveness());
  if (server.draining()) state += server.chunks() == 0 ? ", drained" : ", draining";
  if (server.failed_disks() > 0)
    state += fmt::format(", {} of {} disks failed", server.failed_disks(), server.disks());
  return state;
}

Status list(Session& session, BlockingClient& client) {
  KINTSUGI_ASSIGN(const proto::ListServersResponse answer, client.run(client.async().list_servers()));
  if (session.json) {
    Json servers = Json::array();
    for (const proto::ServerState& server : answer.servers())
      servers.push_back(to_json(server));
    print_json({{"servers", std::move(servers)}});
    return {};
  }
  fmt::print("{:<20} {:<21} {:<10} {:<15} {:>10} {:>10} {:>8} {:>12} {:>7}  {}\n", "SERVER", "ADDRESS",
             "RACK", "STATE", "FREE", "STORED", "CHUNKS", "UP/DOWN MB/s", "REPAIRS", "HEARTBEAT");
  for (const proto::ServerState& server : answer.servers()) {
    fmt::print("{:<20} {:<21} {:<10} {:<15} {:>10} {:>10} {:>8} {:>12} {:>7}  {:.1f} s ago\n",
               server.server_id(), server.address(), server.rack().empty() ? "-" : server.rack(),
               state_text(server), human_bytes(server.free_bytes()), human_bytes(server.stored_bytes()),
               server.chunks(), link_text(server), server.repairs(), server.seconds_since_heartbeat());
  }
  return {};
}

Result<uint64_t> chunks_on(BlockingClient& client, uint64_t server_id) {
  KINTSUGI_ASSIGN(const proto::ListServersResponse answer, client.run(client.async().list_servers()));
  for (const proto::ServerState& server : answer.servers()) {
    if (server.server_id() == server_id) return server.chunks();
  }
  return Status{Code::kNotFound,
                fmt::format("there is no server {} (see `kintsugi server list`)", server_id)};
}

Status set_draining(Session& session, BlockingClient& client, uint64_t server_id, bool wanted) {
  KINTSUGI_ASSIGN(const uint64_t chunks, chunks_on(client, server_id));
  KINTSUGI_TRY(client.run(client.async().drain_server(server_id, wanted)));
  if (session.json) {
    print_json({{"server_id", std::to_string(server_id)}, {"draining", wanted}, {"chunks", chunks}});
  } else if (!wanted) {
    fmt::print("Server {} takes new chunks again; what was moved away stays where it is.\n", server_id);
  } else {
    fmt::print(
        "Server {} gets nothing new, and what is on it ({} chunks now) is moved away; reads go on "
        "meanwhile.\n"
        "Progress:  kintsugi server list          (CHUNKS falls to 0, then it says drained)\n"
        "Then:      kintsugi server remove {}\n",
        server_id, chunks, server_id);
  }
  return {};
}

Status drain(Session& session, BlockingClient& client, const uint64_t& server_id) {
  return set_draining(session, client, server_id, true);
}

Status undrain(Session& session, BlockingClient& client, const uint64_t& server_id) {
  return set_draining(session, client, server_id, false);
}

Status remove(Session& session, BlockingClient& client, const uint64_t& server_id) {
  KINTSUGI_TRY(client.run(client.async().remove_server(server_id)));
  if (session.json) {
    print_json({{"server_id", std::to_string(server_id)}, {"removed", true}});
  } else {
    fmt::print("Server {} is forgotten; its daemon may be stopped now.\n", server_id);
  }
  return {};
}

}  // namespace

std::vector<Command> server_commands() {
  const auto id = std::make_shared<uint64_t>(0);
  const std::vector<Option> which{{"ID", id.get(), "As `kintsugi server list` shows it", kRequired}};
  return {{.name = "server",
           .help = "Chunkservers: list them, take them out of service",
           .commands = {{.name = "list",
                         .help = "Show all servers: state, space, link, repairs",
                         .prints_json = true,
                         .run = connected(list)},
                        {.name = "drain",
                         .help = "Move all chunks of a server elsewhere; it gets nothing new",
                         .options = which,
                         .prints_json = true,
                         .run = connected(id, drain)},
                        {.name = "undrain",
                         .help = "Let a server take new chunks again",
                         .options = which,
                         .prints_json = true,
                         .run = connected(id, undrain)},
                        {.name = "remove",
                         .help = "Forget a server that is drained, or dead with all its chunks rebuilt",
                         .options = which,
                         .prints_json = true,
                         .run = connected(id, remove)}}}};
}

}  // namespace kintsugi::cli
