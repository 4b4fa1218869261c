// cluster start, stop, status: the only commands that know the daemons as processes of this machine.
#include <cstdio>
#include <filesystem>
#include <set>
#include <thread>

#include "client/cli/commands.h"
#include "client/cli/fitting_policy.h"
#include "client/cli/format.h"
#include "client/cli/local_cluster.h"
#include "client/cli/session.h"
#include "common/proto/names.h"
#include "erasure/policy.h"

namespace kintsugi::cli {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr auto kStartLimit = std::chrono::seconds(30);
constexpr auto kStartPoll = std::chrono::milliseconds(50);
constexpr auto kStopPatience = std::chrono::seconds(10);
constexpr Duration kOneAnswer = 1s;
/// Limits of the metaserver's setting chunk_bytes.
constexpr uint64_t kLeastChunk = 1 << 20, kMostChunk = 256 << 20;

struct ClusterArguments {
  std::string directory = "cluster";
  LocalClusterOptions options;
  /// If given, an existing cluster grows to this number.
  std::optional<uint32_t> chunkservers, repair_managers;
};

Status check_grows(uint32_t wanted, uint32_t made, const char* what) {
  if (wanted >= made) return {};
  return {Code::kInvalidArgument,
          fmt::format("this cluster exists already and has {} {}; it can only grow", made, what)};
}

Status check_same(bool same, const char* option) {
  if (same) return {};
  return {
      Code::kInvalidArgument,
      fmt::format("this cluster exists already and was made with another {}; choose another --dir", option)};
}

/// A cluster that its metaserver would refuse is not made.
Status check_arguments(const ClusterArguments& arguments) {
  const uint64_t chunk = arguments.options.chunk_bytes;
  if (chunk == 0 || (chunk >= kLeastChunk && chunk <= kMostChunk)) return {};
  return {Code::kInvalidArgument, "--chunk-size: must be between 1MiB and 256MiB"};
}

/// Sentences on the default policy when it is not the usual one, or files cannot be stored with it yet; empty: all is
/// as usual.
std::string note_on_policy(const LocalClusterOptions& options, bool is_new, bool was_chosen) {
  const std::string name = options.policy.empty() ? std::string(kDefaultPolicy) : options.policy;
  const uint32_t needed = servers_for(name);
  if (needed > options.chunkservers) {
    return fmt::format(
        "Files with the default policy {} need {} chunkservers; with fewer, `kintsugi put --policy NAME` or "
        "`kintsugi policy set / NAME` takes another.\n",
        name, needed);
  }
  if (!is_new || was_chosen || options.policy.empty()) return "";
  return fmt::format(
      "New files get the policy {}, since {} needs {} chunkservers; --policy chooses another.\n", name,
      kDefaultPolicy, servers_for(kDefaultPolicy));
}

Result<DirectoryLock> lock_for_start(const ClusterArguments& arguments) {
  const std::string& policy = arguments.options.policy;
  if (!policy.empty()) {
    auto parsed = erasure::Policy::parse(policy);
    if (!parsed) return parsed.error();
  }
  std::error_code error;
  std::filesystem::create_directories(arguments.directory, error);
  if (error) return status_from_errno(error.value(), arguments.directory);
  return DirectoryLock::take(arguments.directory);
}

Result<LocalCluster> load_or_create(const ClusterArguments& arguments) {
  LocalClusterOptions wanted = arguments.options;
  auto cluster = LocalCluster::load(arguments.directory);
  if (!cluster && cluster.error().code() == Code::kNotFound) {
    wanted.chunkservers = arguments.chunkservers.value_or(wanted.chunkservers);
    wanted.repair_managers = arguments.repair_managers.value_or(wanted.repair_managers);
    if (wanted.policy.empty()) {
      KINTSUGI_ASSIGN(wanted.policy, fitting_policy(wanted.chunkservers));
      if (wanted.policy == kDefaultPolicy) wanted.policy.clear();
    }
    return LocalCluster::create(arguments.directory, wanted);
  }
  if (!cluster) return cluster;
  const LocalClusterOptions& made = cluster->options();
  KINTSUGI_TRY(check_same(wanted.policy.empty() || wanted.policy == made.policy, "--policy"));
  KINTSUGI_TRY(check_same(wanted.racks == 0 || wanted.racks == made.racks, "--racks"));
  KINTSUGI_TRY(check_same(wanted.chunk_bytes == 0 || wanted.chunk_bytes == made.chunk_bytes, "--chunk-size"));
  KINTSUGI_TRY(
      check_same(wanted.repair_delay_seconds < 0 || wanted.repair_delay_seconds == made.repair_delay_seconds,
                 "--repair-delay"));
  return cluster;
}

/// Has the cluster's files name the directory that it is in.
Status follow_move(LocalCluster& cluster) {
  const std::optional<std::string> before = cluster.moved_from();
  if (!before) return {};
  for (const LocalDaemon& daemon : cluster.daemons()) {
    if (daemon.pid() == 0) continue;
    return {Code::kConflict,
            fmt::format("this cluster was moved here from {}, and its {} still runs: stop it first", *before,
                        daemon.name)};
  }
  return cluster.adopt_directory();
}

Status grow(LocalCluster& cluster, const ClusterArguments& arguments) {
  const LocalClusterOptions made = cluster.options();
  const uint32_t chunkservers = arguments.chunkservers.value_or(made.chunkservers);
  // A metaserver alone repairs nothing: a cluster of an earlier version gets a repair manager here.
  const uint32_t managers = arguments.repair_managers.value_or(std::max(1u, made.repair_managers));
  KINTSUGI_TRY(check_grows(chunkservers, made.chunkservers, "chunkservers"));
  KINTSUGI_TRY(check_grows(managers, made.repair_managers, "repair managers"));
  if (chunkservers > made.chunkservers) KINTSUGI_TRY(cluster.grow(chunkservers));
  if (managers > made.repair_managers) KINTSUGI_TRY(cluster.grow_repair_managers(managers));
  return cluster.grow_monitor();
}

/// Starts the daemons that do not run. `launched` names those that were started before, which must not have ended.
Status start_missing(const LocalCluster& cluster, std::set<std::string>& launched) {
  for (const LocalDaemon& daemon : cluster.daemons()) {
    if (daemon.pid() != 0) continue;
    if (launched.contains(daemon.name)) {
      return {Code::kUnavailable,
              fmt::format("{} ended right after its start: {}", daemon.name, daemon.last_words())};
    }
    KINTSUGI_TRY(daemon.start());
    launched.insert(daemon.name);
  }
  return {};
}

bool all_run(const LocalCluster& cluster) {
  const std::vector<LocalDaemon> daemons = cluster.daemons();
  return std::all_of(daemons.begin(), daemons.end(),
                     [](const LocalDaemon& daemon) { return daemon.pid() != 0; });
}

/// The server has sent a heartbeat since `started`, as it was started then or continued.
bool has_come(const proto::ServerState& server, SteadyClock::time_point started) {
  const double elapsed = std::chrono::duration<double>(SteadyClock::now() - started).count();
  // An older heartbeat came from the server's former life, whose end the metaserver has not noticed yet.
  const bool fresh = server.seconds_since_heartbeat() <= elapsed;
  // A registration alone, which does not tell of disks, is no sign: the server may find that it belongs to another
  // cluster.
  return server.liveness() == proto::ServerState::ALIVE && fresh && server.disks() > 0;
}

/// A repair manager has registered with the metaserver, which says kNotFound without one.
bool is_repaired(client::BlockingClient& client) {
  return client.run(client.async().repair_status()).has_value();
}

/// Why the cluster is not up after kStartLimit: the daemon and how its log ends.
Status not_up(const LocalCluster& cluster, const std::set<std::string>& missing, const Status& listed) {
  const std::vector<LocalDaemon> daemons = cluster.daemons();
  if (!listed.ok()) {
    return {Code::kDeadlineExceeded,
            fmt::format("metaserver does not answer after {} s: {}; its log ends with: {}",
                        kStartLimit.count(), listed.message(), daemons.front().last_words())};
  }
  const auto addresses = cluster.chunkserver_addresses();
  if (missing.empty()) {
    const LocalDaemon& manager = daemons[addresses.size() + 1];
    return {
        Code::kDeadlineExceeded,
        fmt::format(
            "no repair manager registered within {} s, so that nothing would be repaired; the log of {} ends "
            "with: {}",
            kStartLimit.count(), manager.name, manager.last_words())};
  }
  const size_t first = static_cast<size_t>(std::find(addresses.begin(), addresses.end(), *missing.begin()) -
                                           addresses.begin());
  return {Code::kDeadlineExceeded,
          fmt::format("{} of {} chunkservers did not register within {} s; the log of {} ends with: {}",
                      missing.size(), addresses.size(), kStartLimit.count(), daemons[first + 1].name,
                      daemons[first + 1].last_words())};
}

/// Returns once the metaserver counts all chunkservers as alive, by heartbeats that came after `started`, and has a
/// repair manager. An error says which daemon failed and how its log ends.
Status wait_until_up(const LocalCluster& cluster, SteadyClock::time_point started,
                     std::set<std::string>& launched) {
  KINTSUGI_ASSIGN(const auto client,
                  Session::connect_to(cluster.metaserver_address(), {cluster.secret_file()}, kOneAnswer));
  std::set<std::string> missing;
  while (true) {
    // A daemon that was just ending when it was looked at first is started here.
    KINTSUGI_TRY(start_missing(cluster, launched));
    missing.clear();
    for (const std::string& address : cluster.chunkserver_addresses())
      missing.insert(address);
    const auto servers = client->run(client->async().list_servers());
    if (servers) {
      for (const proto::ServerState& server : servers->servers()) {
        if (has_come(server, started)) missing.erase(server.address());
      }
      if (missing.empty() && all_run(cluster) && is_repaired(*client)) return {};
    }
    if (SteadyClock::now() - started >= kStartLimit)
      return not_up(cluster, missing, servers ? Status{} : servers.error());
    std::this_thread::sleep_for(kStartPoll);
  }
}

/// Where a browser finds the monitor's console; empty when the cluster has no monitor.
std::string console_of(const LocalCluster& cluster) {
  const std::string address = cluster.monitor_http();
  return address.empty() ? "" : "http://" + address + "/";
}

/// Starts what does not run, and returns once everything is up. `launched` gets the names of what was started.
Status bring_up(const LocalCluster& cluster, std::set<std::string>& launched) {
  const auto started = SteadyClock::now();
  KINTSUGI_TRY(start_missing(cluster, launched));
  return wait_until_up(cluster, started, launched);
}

Status start(Session& session, const ClusterArguments& arguments) {
  KINTSUGI_ASSIGN(const DirectoryLock lock, lock_for_start(arguments));
  const bool is_new = !LocalCluster::load(arguments.directory);
  KINTSUGI_ASSIGN(LocalCluster cluster, load_or_create(arguments));
  KINTSUGI_TRY(cluster.close_to_others());
  KINTSUGI_TRY(follow_move(cluster));
  KINTSUGI_TRY(cluster.remember());
  const LocalClusterOptions before = cluster.options();
  std::set<std::string> launched;
  Status up = grow(cluster, arguments);
  if (up.ok()) up = bring_up(cluster, launched);
  if (!up.ok()) {
    // A cluster that did not come up has not grown either.
    const Status shrunk = cluster.shrink(before, kStopPatience);
    if (!shrunk.ok()) session.complain(shrunk);
    return up;
  }
  if (session.json) {
    print_json({{"dir", cluster.directory()},
                {"metaserver", cluster.metaserver_address()},
                {"chunkservers", cluster.options().chunkservers},
                {"repair_managers", cluster.options().repair_managers},
                {"policy",
                 cluster.options().policy.empty() ? std::string(kDefaultPolicy) : cluster.options().policy},
                {"console", console_of(cluster)},
                {"started", launched.size()},
                {"env", cluster.env_file()}});
    return {};
  }
  fmt::print("The cluster is up: 1 metaserver at {}, {}, {}; {}.\n", cluster.metaserver_address(),
             counted(cluster.options().chunkservers, "chunkserver"),
             counted(cluster.options().repair_managers, "repair manager"),
             launched.empty() ? "all of them ran already" : counted(launched.size(), "daemon") + " started");
  if (const std::string console = console_of(cluster); !console.empty())
    fmt::print("Its monitor, in a browser: {}\n", console);
  fmt::print("{}", note_on_policy(cluster.options(), is_new, !arguments.options.policy.empty()));
  fmt::print("Next:  . {}\n       kintsugi put FILE /NAME\n", cluster.env_file());
  return {};
}

Status stop(Session& session, const ClusterArguments& arguments) {
  KINTSUGI_ASSIGN(const LocalCluster cluster, LocalCluster::load(arguments.directory));
  KINTSUGI_ASSIGN(const DirectoryLock lock, DirectoryLock::take(cluster.directory()));
  std::vector<LocalDaemon> daemons = cluster.daemons();
  const auto running =
      std::count_if(daemons.begin(), daemons.end(), [](const LocalDaemon& d) { return d.pid() != 0; });
  // All stop at once, the metaserver too, since chunkservers end without asking it.
  std::vector<Status> results(daemons.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < daemons.size(); ++i) {
    threads.emplace_back([&, i] { results[i] = daemons[i].stop(kStopPatience); });
  }
  for (std::thread& thread : threads)
    thread.join();
  for (const Status& result : results)
    KINTSUGI_TRY(result);
  if (session.json) {
    print_json({{"dir", cluster.directory()}, {"stopped", running}});
  } else {
    fmt::print("{} stopped.\n", counted(static_cast<uint64_t>(running), "daemon"));
  }
  return {};
}

/// Fails when a daemon is not running, after it printed everything.
Status status(Session& session, const ClusterArguments& arguments) {
  KINTSUGI_ASSIGN(const LocalCluster cluster, LocalCluster::load(arguments.directory));
  // First, so that a user who may not read the secret gets one line and no half of an answer.
  KINTSUGI_ASSIGN(const auto client,
                  Session::connect_to(cluster.metaserver_address(), {cluster.secret_file()}, kOneAnswer));
  Json daemons = Json::array(), servers = Json::array();
  size_t dead = 0;
  for (const LocalDaemon& daemon : cluster.daemons()) {
    const pid_t pid = daemon.pid();
    dead += pid == 0;
    daemons.push_back({{"name", daemon.name}, {"alive", pid != 0}, {"pid", pid}, {"log", daemon.log}});
    if (!session.json)
      fmt::print("{:<16} {}\n", daemon.name, pid != 0 ? fmt::format("alive  pid {}", pid) : "dead");
  }
  const auto listed = client->run(client->async().list_servers());
  if (listed) {
    if (!session.json) fmt::print("\n");
    for (const proto::ServerState& server : by_number(*listed)) {
      servers.push_back(to_json(server));
      if (session.json) continue;
      fmt::print("{:>3} {:<20} {:<21} {:<8} {:>10} free  {} chunks\n", server.number(), server.name(),
                 server.address(), proto::liveness_name(server.liveness()), human_bytes(server.free_bytes()),
                 server.chunks());
    }
  }
  if (const std::string console = console_of(cluster); !session.json && !console.empty())
    fmt::print("\nconsole: {}\n", console);
  if (session.json) {
    print_json({{"dir", cluster.directory()},
                {"metaserver", cluster.metaserver_address()},
                {"console", console_of(cluster)},
                {"daemons", std::move(daemons)},
                {"servers", std::move(servers)}});
  }
  if (dead > 0)
    return {Code::kUnavailable, fmt::format("{} of {} daemons {} not running", dead, cluster.daemons().size(),
                                            dead == 1 ? "is" : "are")};
  return listed ? Status{} : listed.error();
}

/// These commands look for no cluster in the environment: they know it from its directory.
Run on_directory(std::shared_ptr<ClusterArguments> arguments,
                 Status (*action)(Session&, const ClusterArguments&)) {
  return [arguments, action](Session& session) { return action(session, *arguments); };
}

}  // namespace

std::vector<Command> cluster_commands() {
  const auto a = std::make_shared<ClusterArguments>();
  LocalClusterOptions& options = a->options;
  const Option directory{"--dir", &a->directory, "The cluster's directory; default: ./cluster"};
  return {{.name = "cluster",
           .help =
               "A cluster on this machine: start, stop, status; on several: init, check; after an upgrade: "
               "finalize",
           .commands = {
               {.name = "start",
                .help = "Create a local cluster, or start its daemons that do not run",
                .options =
                    {directory,
                     {.names = "--chunkservers",
                      .target = &a->chunkservers,
                      .help = "Number of chunkservers; default: 10. A larger number than before adds servers",
                      .least = 1,
                      .most = LocalCluster::kMaxChunkservers},
                     {.names = "--racks",
                      .target = &options.racks,
                      .help = "Spread the chunkservers over so many racks",
                      .least = 1,
                      .most = LocalCluster::kMaxChunkservers},
                     {.names = "--repair-managers",
                      .target = &a->repair_managers,
                      .help = "Number of repair managers; default: 1. A larger number than before adds some",
                      .least = 1,
                      .most = LocalCluster::kMaxRepairManagers},
                     {"--policy", &options.policy, "Default policy for files, as in rs-6-3-1024k"},
                     {"--repair-delay", &options.repair_delay_seconds,
                      "Seconds until a dead server's chunks are rebuilt"},
                     {"--chunk-size", Bytes{&options.chunk_bytes}, "Largest chunk, as in 64MiB"}},
                .prints_json = true,
                .check = [a] { return check_arguments(*a); },
                .run = on_directory(a, start)},
               {.name = "stop",
                .help = "Stop all daemons; data stays",
                .options = {directory},
                .prints_json = true,
                .run = on_directory(a, stop)},
               {.name = "status",
                .help = "Show which daemons run; the exit code is 1 when one does not",
                .options = {directory},
                .prints_json = true,
                .run = on_directory(a, status)},
               init_command(),
               check_command(),
               finalize_command()}}};
}

}  // namespace kintsugi::cli
