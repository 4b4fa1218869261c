// server list, drain, undrain, maintain, remove.
#include <cmath>
#include <cstdio>

#include "client/cli/commands.h"
#include "client/cli/format.h"
#include "client/cli/long_time.h"
#include "client/cli/servers.h"
#include "client/cli/session.h"
#include "common/base/operator_limits.h"
#include "common/proto/names.h"
#include "common/proto/verdicts.h"

namespace kintsugi::cli {
namespace {

using client::BlockingClient;

/// Clocks that differ by less, in seconds, are nothing to look after.
constexpr double kClockShown = 60;

/// The measured speed of the server's link, up and down in MB/s ("118/118"), or "-" while it is not known.
std::string link_text(const proto::ServerState& server) {
  if (server.up_bytes_per_second() == 0 && server.down_bytes_per_second() == 0) return "-";
  return fmt::format("{:.0f}/{:.0f}", static_cast<double>(server.up_bytes_per_second()) / 1e6,
                     static_cast<double>(server.down_bytes_per_second()) / 1e6);
}

std::string state_text(const proto::ServerState& server) {
  std::string state(proto::liveness_name(server.liveness()));
  if (server.draining()) state += server.chunks() == 0 ? ", drained" : ", draining";
  if (server.maintenance_seconds() > 0)
    state += ", in maintenance until " + time_in(server.maintenance_seconds());
  if (server.failed_disks() > 0)
    state += fmt::format(", {} of {} disks failed", server.failed_disks(), server.disks());
  if (const double ahead = server.clock_difference_seconds(); std::abs(ahead) >= kClockShown)
    state += fmt::format(", its clock is {:.0f} s {}", std::abs(ahead), ahead > 0 ? "ahead" : "behind");
  if (server.has_slow()) {
    const proto::SlowServer& slow = server.slow();
    state += fmt::format(", avoided: {} {}", slow.part() == proto::SlowServer::DISK ? "disk" : "link",
                         slow.factor() > 0 ? fmt::format("{:.1f} times slower", slow.factor())
                                           : fmt::format("out of order (alarm {})", slow.alarm()));
  }
  return state;
}

/// One line for each disk that is not well.
void print_disks(const proto::ServerState& server) {
  for (const proto::DiskState& disk : server.disk_states()) {
    if (disk.health() == proto::DiskState::WELL && !disk.full()) continue;
    const bool sick = disk.health() != proto::DiskState::WELL;
    fmt::print("    disk {}: {} ({} chunks){}{}\n", disk.path(),
               sick ? proto::health_name(disk.health()) : "full", disk.chunks(),
               disk.reason().empty() ? "" : ": ", disk.reason());
  }
}

Status list_servers(Session& session, BlockingClient& client) {
  KINTSUGI_ASSIGN(const proto::ListServersResponse answer, client.run(client.async().list_servers()));
  KINTSUGI_ASSIGN(const proto::DiskFreeResponse free, client.run(client.async().disk_free()));
  if (session.json) {
    Json servers = Json::array();
    for (const proto::ServerState& server : by_number(answer))
      servers.push_back(to_json(server));
    print_json({{"servers", std::move(servers)}, {"health", to_json(free.health())}});
    return {};
  }
  const std::vector<proto::ServerState> servers = by_number(answer);
  const size_t width = name_width(servers);
  fmt::print("{:>3} {:<{}} {:<21} {:<10} {:<15} {:>10} {:>10} {:>8} {:>12} {:>7}  {}\n", "NO", "NAME", width,
             "ADDRESS", "RACK", "STATE", "FREE", "STORED", "CHUNKS", "UP/DOWN MB/s", "REPAIRS", "HEARTBEAT");
  for (const proto::ServerState& server : servers) {
    fmt::print("{:>3} {:<{}} {:<21} {:<10} {:<15} {:>10} {:>10} {:>8} {:>12} {:>7}  {:.1f} s ago\n",
               server.number(), server.name(), width, server.address(),
               server.rack().empty() ? "-" : server.rack(), state_text(server),
               human_bytes(server.free_bytes()), human_bytes(server.stored_bytes()), server.chunks(),
               link_text(server), server.repairs(), server.seconds_since_heartbeat());
    print_disks(server);
    if (server.has_held_back()) fmt::print("    {}\n", proto::describe(server.held_back()));
  }
  if (const std::string lacks = health_text(free.health()); !lacks.empty()) fmt::print("{}\n", lacks);
  return {};
}

Result<proto::ServerState> find(BlockingClient& client, const std::string& text) {
  KINTSUGI_ASSIGN(const proto::ListServersResponse answer, client.run(client.async().list_servers()));
  return find_server(answer, text);
}

Json identity(const proto::ServerState& server) {
  return {{"server_id", std::to_string(server.server_id())},
          {"number", server.number()},
          {"name", server.name()}};
}

Status set_draining(Session& session, BlockingClient& client, const std::string& text, bool wanted) {
  KINTSUGI_ASSIGN(const proto::ServerState server, find(client, text));
  KINTSUGI_TRY(client.run(client.async().drain_server(server.server_id(), wanted)));
  if (session.json) {
    Json document = identity(server);
    document.append({{"draining", wanted}, {"chunks", server.chunks()}});
    print_json(document);
  } else if (!wanted) {
    fmt::print("Server {} takes new chunks again; what was moved away stays where it is.\n", server.name());
  } else {
    fmt::print(
        "Server {} gets no new chunks, and its {} chunks are moved to other servers; they can be read "
        "meanwhile.\n"
        "Progress:  kintsugi server list          (CHUNKS falls to 0, then it says drained)\n"
        "Then:      kintsugi server remove {}\n",
        server.name(), server.chunks(), server.name());
  }
  return {};
}

Status drain_server(Session& session, BlockingClient& client, const std::string& server) {
  return set_draining(session, client, server, true);
}

Status undrain_server(Session& session, BlockingClient& client, const std::string& server) {
  return set_draining(session, client, server, false);
}

struct MaintainArguments {
  std::string server, time;
  bool end = false;
};

/// The time that --for gives; zero: --end.
Result<std::chrono::seconds> maintenance_of(const MaintainArguments& arguments) {
  if (arguments.end != arguments.time.empty())
    return Status{Code::kInvalidArgument,
                  "say for how long with --for, as in 2h or 30m, or end the maintenance with --end"};
  if (arguments.end) return std::chrono::seconds(0);
  KINTSUGI_ASSIGN(const Duration time, parse_long_time(arguments.time));
  if (time < 1s || time > kMaxMaintenance)
    return Status{Code::kInvalidArgument,
                  fmt::format("--for is 1s to {}h: drain a server that is away for longer",
                              std::chrono::duration_cast<std::chrono::hours>(kMaxMaintenance).count())};
  return std::chrono::ceil<std::chrono::seconds>(time);
}

Status maintain_server(Session& session, BlockingClient& client, const MaintainArguments& arguments) {
  KINTSUGI_ASSIGN(const std::chrono::seconds time, maintenance_of(arguments));
  KINTSUGI_ASSIGN(const proto::ServerState server, find(client, arguments.server));
  const auto seconds = static_cast<uint64_t>(time.count());
  KINTSUGI_TRY(client.run(client.async().maintain_server(server.server_id(), seconds)));
  if (session.json) {
    Json document = identity(server);
    document.append({{"maintenance_seconds", seconds}});
    print_json(document);
  } else if (seconds > 0) {
    fmt::print(
        "Server {} is in maintenance until {}. While it is away, its chunks are rebuilt only where one more "
        "loss would make data unreadable, or where other chunks are lost too.\n"
        "End:  kintsugi server maintain {} --end\n",
        server.name(), time_in(static_cast<double>(seconds)), server.name());
  } else {
    fmt::print("Server {} is not in maintenance: its loss starts repairs as that of any other.\n",
               server.name());
  }
  return {};
}

Status remove_server(Session& session, BlockingClient& client, const std::string& text) {
  KINTSUGI_ASSIGN(const proto::ServerState server, find(client, text));
  KINTSUGI_TRY(client.run(client.async().remove_server(server.server_id())));
  if (session.json) {
    Json document = identity(server);
    document.append({{"removed", true}});
    print_json(document);
  } else {
    fmt::print("Server {} is forgotten; its daemon may be stopped now.\n", server.name());
  }
  return {};
}

}  // namespace

std::vector<Command> server_commands() {
  const auto server = std::make_shared<std::string>();
  const auto maintain = std::make_shared<MaintainArguments>();
  const std::vector<Option> which{
      {"SERVER", server.get(), "Its name or number, as `kintsugi server list` shows them", kRequired}};
  return {{.name = "server",
           .help = "Chunkservers: list them, take them out of service",
           .commands = {{.name = "list",
                         .help = "Show all servers: state, space, link, repairs",
                         .prints_json = true,
                         .run = connected(list_servers)},
                        {.name = "drain",
                         .help = "Move all chunks of a server elsewhere; it gets no new chunks",
                         .options = which,
                         .prints_json = true,
                         .run = connected(server, drain_server)},
                        {.name = "undrain",
                         .help = "Let a server take new chunks again",
                         .options = which,
                         .prints_json = true,
                         .run = connected(server, undrain_server)},
                        {.name = "maintain",
                         .help = "Say that a server will be away for a while: its loss starts no repairs",
                         .options = {{"SERVER", &maintain->server,
                                      "Its name or number, as `kintsugi server list` shows them", kRequired},
                                     {"--for", &maintain->time, "For how long at most, as in 2h; up to 24h"},
                                     {.names = "--end",
                                      .target = &maintain->end,
                                      .help = "It is back, or stays away: end the maintenance",
                                      .excludes = "--for"}},
                         .prints_json = true,
                         .check =
                             [maintain] {
                               const auto time = maintenance_of(*maintain);
                               return time ? Status{} : time.error();
                             },
                         .run = connected(maintain, maintain_server)},
                        {.name = "remove",
                         .help = "Forget a server that is drained, or dead with all its chunks rebuilt",
                         .options = which,
                         .prints_json = true,
                         .run = connected(server, remove_server)}}}};
}

}  // namespace kintsugi::cli
