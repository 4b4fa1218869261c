#include "tests/simulation/swarm/swarm.h"

#include <cstdio>
#include <cstdlib>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <fmt/format.h>
#include <gtest/gtest-spi.h>

#include "common/log/log.h"

namespace kintsugi::simulation {
namespace {

constexpr size_t kDirectories = 16;
constexpr size_t kLinesKept = 40;

}  // namespace

Swarm::Swarm(const Schedule& schedule)
    : schedule_(schedule),
      cluster_(schedule.cluster),
      inspector_(cluster_),
      files_(cluster_, coverage_),
      appenders_(cluster_, coverage_),
      trees_(cluster_, coverage_, {.quota = schedule.quota, .trash = schedule.trash}),
      disks_(cluster_, inspector_, absent_, schedule.cluster.disks) {
  log::set_sink([this](log::Level, std::string_view line) { take_line(line); });
  for (size_t i = 0; i < schedule.cluster.late_servers; ++i)
    absent_.insert(cluster_.chunkservers() - 1 - i);
}

Swarm::~Swarm() {
  // Operations may still be under way when a run ended early, and end with the cluster only.
  files_.client_crashed();
  trees_.client_crashed();
  if (ended_early_) end_faults();
  appenders_.stop();
  log::set_sink({});
}

void Swarm::take_line(std::string_view line) {
  static const bool print = std::getenv("KINTSUGI_SIM_LOG") != nullptr;
  const double seconds = to_seconds(cluster_.elapsed());
  lines_.push_back(fmt::format("{:12.6f} {}", seconds, line));
  if (print) std::fprintf(stderr, "%s\n", lines_.back().c_str());
  if (lines_.size() > kLinesKept) lines_.pop_front();
  ++coverage_.states[state_of(line)];
}

Finding Swarm::run(const std::function<bool(const Step&)>& wanted) {
  testing::TestPartResultArray failures;
  Finding finding;
  {
    const testing::ScopedFakeTestPartResultReporter reporter(
        testing::ScopedFakeTestPartResultReporter::INTERCEPT_ALL_THREADS, &failures);
    finding = run_guarded(wanted);
  }
  if (!finding && failures.size() > 0)
    finding = {Violation::kRefused, failures.GetTestPartResult(0).message()};
  return finding;
}

Finding Swarm::run_guarded(const std::function<bool(const Step&)>& wanted) {
  try {
    if (Finding finding = start()) return finding;
    const size_t round = (schedule_.steps.size() + schedule_.rounds - 1) / schedule_.rounds;
    for (const Step& step : schedule_.steps) {
      if (wanted(step))
        if (Finding finding = this->step(step)) return finding;
      const bool ends_round = (step.number + 1) % round == 0 || step.number + 1 == schedule_.steps.size();
      if (ends_round)
        if (Finding finding = settle()) return finding;
    }
    return {};
  } catch (const BeyondWhatCodesBear&) {
    ++coverage_.outcomes["run beyond what its code bears"];
    ended_early_ = true;
    return {};
  } catch (const std::exception& error) {
    return {Violation::kStuck, error.what()};
  }
}

Finding Swarm::start() {
  Status status = cluster_.start();
  if (status.ok()) status = files_.make_directories(kDirectories);
  if (status.ok()) status = appenders_.start();
  if (status.ok()) status = trees_.start();
  if (!status.ok()) return {Violation::kNotHealed, "the cluster does not start: " + status.to_string()};
  older_metadata_ = cluster_.copy_metadata();
  ++coverage_.codes[schedule_.cluster.policy];
  return inspector_.look();
}

Finding Swarm::step(const Step& step) {
  SimRandom dice(step.dice);
  static const bool print = std::getenv("KINTSUGI_SIM_LOG") != nullptr;
  if (step.act == Act::kRollBackMetadata) {
    if (Finding finding = roll_back(dice)) return finding;
  } else {
    const bool had_effect = act(step.act, dice);
    if (had_effect) ++coverage_.acts[std::string(name_of(step.act))];
    if (had_effect && print)
      std::fprintf(stderr, "%12.6f step %u: %s\n", to_seconds(cluster_.elapsed()), step.number,
                   std::string(name_of(step.act)).c_str());
  }
  return pass(step.pause);
}

Finding Swarm::pass(Duration time) {
  cluster_.run_for(time);
  if (Finding finding = take_finding()) return finding;
  if (files_.writes_under_way() + appenders_.under_way() + trees_.under_way() == 0)
    inspector_.no_write_is_under_way();
  return inspector_.look();
}

Finding Swarm::take_finding() {
  if (Finding finding = files_.take_finding()) return finding;
  if (Finding finding = appenders_.take_finding()) return finding;
  return trees_.take_finding();
}

// ---- acts ------------------------------------------------------------------------------------------------

bool Swarm::act(Act act, SimRandom& dice) {
  if (act <= Act::kSetPolicy) return operate(act, dice);
  if (act <= Act::kLookAtSnapshot) return operate_beside(act, dice);
  switch (act) {
    case Act::kCrashServer: return crash_or_restart_server(dice);
    case Act::kRestart: return restart_server(dice);
    case Act::kCrashMetaserver: return crash_or_restart_metaserver(dice);
    case Act::kCrashAll: return crash_everything(dice);
    case Act::kCrashClient:
      cluster_.crash_client();
      client_crashed();
      return true;
    case Act::kDrain: return drain(dice);
    case Act::kAddServer: return add_server();
    case Act::kCrashManager: return crash_or_restart_manager(dice);
    case Act::kCutManager: return cut_manager(dice);
    case Act::kRotChunk:
    case Act::kRotAnywhere:
    case Act::kReplaceDisk:
    case Act::kSpoilBlock:
    case Act::kBlockingCalls:
    case Act::kHangOneDisk:
    case Act::kSlowOneDisk:
    case Act::kReadOnlyDisk:
    case Act::kMendOneDisk:
    case Act::kFailReads:
    case Act::kFailWrites:
    case Act::kBreakDisk:
    case Act::kWipeDisk: return disks_.act(act, any_server(dice), dice);
    default: return break_something(act, dice);
  }
}

bool Swarm::operate(Act act, SimRandom& dice) {
  using Kind = LinearDirectory::Kind;
  if (act == Act::kSetPolicy) {
    const std::string& policy = schedule_.policies[dice.below(schedule_.policies.size())];
    files_.begin_set_policy(files_.active(dice.next()), policy);
    ++coverage_.codes[policy];
    return true;
  }
  constexpr Kind kKinds[] = {Kind::kPut,    Kind::kCreate, Kind::kRemove,
                             Kind::kRename, Kind::kRead,   Kind::kList};
  return begin(kKinds[static_cast<size_t>(act)], dice);
}

bool Swarm::operate_beside(Act act, SimRandom& dice) {
  switch (act) {
    case Act::kAppend: return appenders_.begin_append(dice);
    case Act::kChangeMode: return appenders_.begin_change_mode(dice);
    case Act::kReadLog: return appenders_.begin_read(dice);
    case Act::kKeptPut: return trees_.begin_put(dice);
    case Act::kKeptRemove: return trees_.begin_remove(dice);
    case Act::kKeptRename: return trees_.begin_rename(dice);
    case Act::kSnapshot: return trees_.begin_snapshot(dice);
    case Act::kDropSnapshot: return trees_.begin_drop(dice);
    default: return trees_.begin_look(dice);
  }
}

bool Swarm::begin(LinearDirectory::Kind kind, SimRandom& dice) {
  if (files_.under_way() >= schedule_.most_operations) return false;
  const size_t directory = files_.active(dice.next());
  LinearDirectory::Operation operation;
  operation.kind = kind;
  operation.name = static_cast<uint32_t>(dice.below(LinearDirectory::kNames));
  operation.other = static_cast<uint32_t>(dice.below(LinearDirectory::kNames));
  // Small files share segments and are copies; larger ones are stripes of several chunks.
  const uint64_t bytes = dice.below(3) == 0 ? dice.below(60'000) : dice.below(schedule_.largest_file);
  files_.begin(directory, operation, bytes);
  return true;
}

bool Swarm::crash_or_restart_server(SimRandom& dice) {
  const size_t server = any_server(dice);
  if (absent_.contains(server)) return false;
  if (!cluster_.running(server)) {
    restart_server(server);
  } else {
    cluster_.crash_chunkserver(server, dice.coin() ? Crash::kKill : Crash::kPower);
  }
  return true;
}

bool Swarm::restart_server(SimRandom& dice) {
  const size_t server = any_server(dice);
  if (!cluster_.running(server)) return false;
  cluster_.crash_chunkserver(server, dice.coin() ? Crash::kKill : Crash::kPower);
  restart_server(server);
  return true;
}

void Swarm::restart_server(size_t server) {
  cluster_.restart_chunkserver(server);
  inspector_.started_again(server, disks_.may_hang(server));
}

bool Swarm::crash_or_restart_metaserver(SimRandom& dice) {
  if (cluster_.metaserver_running()) {
    cluster_.crash_metaserver(dice.coin() ? Crash::kKill : Crash::kPower);
  } else {
    cluster_.restart_metaserver();
  }
  return true;
}

void Swarm::client_crashed() {
  files_.client_crashed();
  trees_.client_crashed();
  asking_ = std::make_shared<size_t>(0);
}

bool Swarm::crash_everything(SimRandom& dice) {
  std::set<size_t> down;
  for (size_t server = 0; server < cluster_.chunkservers(); ++server)
    if (!cluster_.running(server) && !absent_.contains(server)) down.insert(server);
  cluster_.crash_all(dice.coin() ? Crash::kPower : Crash::kKill);
  client_crashed();
  cluster_.run_for(std::chrono::milliseconds(dice.below(5000)));
  if (!cluster_.metaserver_running()) cluster_.restart_metaserver();
  for (size_t server = 0; server < cluster_.chunkservers(); ++server)
    if (!cluster_.running(server) && !absent_.contains(server)) restart_server(server);
  for (size_t manager = 0; manager < schedule_.cluster.repair_managers; ++manager)
    if (!cluster_.repair_manager_running(manager)) cluster_.restart_repair_manager(manager);
  return true;
}

bool Swarm::break_something(Act act, SimRandom& dice) {
  const size_t server = any_server(dice);
  const std::string name = SimulatedCluster::name(server);
  const std::string other = dice.coin()   ? std::string("metaserver")
                            : dice.coin() ? SimulatedCluster::client_name(dice.below(cluster_.clients()))
                                          : SimulatedCluster::name(any_server(dice));
  SimNetwork& network = cluster_.network();
  SimDisk& disk = cluster_.disk(server);
  switch (act) {
    case Act::kCut: network.cut(name, other); return name != other;
    case Act::kCutOneWay:
      if (dice.coin()) {
        network.cut_one_way(name, other);
      } else {
        network.cut_one_way(other, name);
      }
      return name != other;
    case Act::kIsolate: network.isolate(dice.below(8) == 0 ? std::string("metaserver") : name); return true;
    case Act::kDropConnections: network.drop_connections(dice.coin() ? name : other); return true;
    case Act::kLateServer:
      network.set_extra_latency(dice.below(4) == 0 ? other : name,
                                std::chrono::milliseconds(dice.below(1500)));
      return true;
    case Act::kSlowLink: {
      const uint64_t rate = 20'000 + dice.below(2'000'000);
      network.set_link(name, rate, rate);
      return true;
    }
    case Act::kLoss: {
      const bool lossy = dice.coin();
      network.set_loss(lossy ? 0.02 : 0);
      network.set_stalls(lossy && dice.below(4) == 0 ? 1'000 : 0);
      return true;
    }
    case Act::kFlipsInFlight: network.set_flips(dice.coin() ? 2000 : 0); return true;
    case Act::kResets:
      network.set_resets(static_cast<uint32_t>(std::array{0, 0, 3'000, 20'000}[dice.below(4)]));
      return true;
    case Act::kMendNetwork: mend_network(); return true;
    case Act::kHangDisk: disks_.hang(server); return true;
    case Act::kSlowDisk: disk.set_slow(2 + static_cast<double>(dice.below(300))); return true;
    case Act::kMendDisk:
      disk.set_slow(1);
      disk.set_capacity("/", SimDisk::kDefaultCapacity);
      for (size_t number = 0; number < schedule_.cluster.disks; ++number)
        disk.mend_disk(fmt::format("/disk-{}", number));
      return true;
    case Act::kFillDisk: disk.fill(); return true;
    case Act::kSwapDisks: {
      if (cluster_.running(server) || schedule_.cluster.disks < 2) return false;
      return disk.swap("/disk-0", "/disk-1").ok();
    }
    case Act::kJumpClock: {
      const Duration offset = std::chrono::seconds(dice.below(1200)) - std::chrono::seconds(600);
      if (dice.below(4) == 0) {
        cluster_.set_metaserver_wall_offset(offset);
      } else {
        cluster_.set_wall_offset(server, offset);
      }
      return true;
    }
    case Act::kDriftClock:
      cluster_.set_wall_drift(server, static_cast<int64_t>(dice.below(100'000)) - 50'000);
      return true;
    default: return false;
  }
}

bool Swarm::crash_or_restart_manager(SimRandom& dice) {
  const size_t manager = dice.below(cluster_.repair_managers());
  if (cluster_.repair_manager_running(manager)) {
    cluster_.crash_repair_manager(manager, dice.coin() ? Crash::kKill : Crash::kPower);
  } else {
    cluster_.restart_repair_manager(manager);
  }
  return true;
}

bool Swarm::cut_manager(SimRandom& dice) {
  const std::string manager = SimulatedCluster::repair_manager_name(dice.below(cluster_.repair_managers()));
  if (dice.coin()) {
    cluster_.network().cut(manager, "metaserver");
  } else {
    cluster_.network().isolate(manager);
  }
  return true;
}

bool Swarm::drain(SimRandom& dice) {
  const size_t server = any_server(dice);
  const bool begin = !drained_.contains(server);
  if (begin && cluster_.store(server) == nullptr) return false;
  if (begin) drained_[server] = cluster_.store(server)->identity().server;
  const ServerId id = drained_[server];
  auto ask = [](ClientProgram& program, uint64_t whom, bool drain,
                std::shared_ptr<size_t> asking) -> asio::awaitable<void> {
    ClientProgram::Use use(program);
    (void)co_await program.client().drain_server(whom, drain);
    --*asking;
  };
  ++*asking_;
  asio::co_spawn(cluster_.simulation().executor(), ask(cluster_.client_program(), id.value, begin, asking_),
                 asio::detached);
  return true;
}

bool Swarm::add_server() {
  if (absent_.empty()) return false;
  const size_t server = *absent_.begin();
  absent_.erase(absent_.begin());
  cluster_.restart_chunkserver(server);
  return true;
}

Finding Swarm::roll_back(SimRandom& dice) {
  // What clients were told meanwhile would be forgotten with the older metadata: they must be quiet.
  const auto quiet = [this] { return under_way() == 0; };
  if (!cluster_.simulation().run_until(quiet, std::chrono::seconds(20))) return pass({});
  // That metadata are older is known from what servers were told of newer ones: all that run have been told, then.
  mend_network();
  if (!cluster_.metaserver_running()) cluster_.restart_metaserver();
  if (Finding finding = pass(10 * schedule_.cluster.heartbeat_interval)) return finding;
  if (cluster_.metaserver_running()) cluster_.crash_metaserver(Crash::kKill);
  const MemoryStoreDisk::Copy newer = cluster_.copy_metadata();
  cluster_.put_back_metadata(*older_metadata_);
  inspector_.compare_with(&newer.durable);
  cluster_.restart_metaserver();
  ++coverage_.acts[std::string(name_of(Act::kRollBackMetadata))];
  rolled_back_ = true;
  Finding finding;
  const uint64_t looks = 1 + dice.below(60);
  for (uint64_t look = 0; look < looks && !finding; ++look)
    finding = pass(std::chrono::seconds(1));
  cluster_.crash_metaserver(Crash::kKill);
  cluster_.put_back_metadata(newer);
  inspector_.compare_with(nullptr);
  cluster_.restart_metaserver();
  older_metadata_ = newer;
  return finding;
}

}  // namespace kintsugi::simulation
