// Something fails in the middle of a repair tree: the right bytes end in exactly one place, in bounded time,
// and the repair history says what happened.
#include <algorithm>

#include <fmt/format.h>

#include "common/proto/names.h"
#include "tests/simulation/cluster/simulated_cluster.h"

namespace kintsugi::simulation {
namespace {

constexpr uint64_t kChunkBytes = 4 << 20;
constexpr uint64_t kStripeBytes = 6 * kChunkBytes;
constexpr uint64_t kSlowLink = 8 << 20;     // bytes/s: a chunk takes half a second, a repair up to three
constexpr Duration kRepairedWithin = 3min;  // whatever happens: a time-out of 30 s, backoffs, a second plan
constexpr Duration kDeadAfter = 10s;
constexpr Duration kOrphansEnd = 1min;  // longer than whatever was given up may still run
constexpr Duration kStraysLive = 2h;    // what nobody knows is only collected when no upload can own it
constexpr std::array kShapes{"star", "ppr", "chain", "auto"};

/// A stripe on slow links that has lost one chunk, and its repair under way.
class RunningRepair {
 public:
  RunningRepair(uint64_t seed, const char* shape, size_t managers = 1)
      : cluster({.seed = seed,
                 .chunkservers = 13,
                 .racks = 13,
                 .repair_managers = managers,
                 .chunk_bytes = kChunkBytes,
                 .repairs = options(shape),
                 .dead_after = kDeadAfter}) {}

  /// `age`: how old the cluster is when it loses the chunk.
  Status start(Duration age = {}) {
    KINTSUGI_TRY(cluster.start());
    KINTSUGI_TRY(cluster.put("/file", kStripeBytes));
    cluster.run_for(age);
    for (size_t server = 0; server < cluster.chunkservers(); ++server)
      cluster.network().set_link(SimulatedCluster::name(server), kSlowLink, kSlowLink);
    const proto::Stripe stripe = cluster.stripes_of("/file").at(0);
    (void)cluster.server_id(0);  // asks who is who
    lost = {StripeId{stripe.stripe_id()}, static_cast<uint32_t>(cluster.random_below(9))};
    victim = number(stripe.chunks(static_cast<int>(lost.index)).server_id());
    cluster.crash_chunkserver(victim, Crash::kPower);
    KINTSUGI_TRY(cluster.wait_until([this] { return find_running(); }, 1min));
    cluster.run_for(cluster.random_time(0ms, 400ms));
    return {};
  }

  size_t number(uint64_t server_id) { return cluster.server_of(ServerId{server_id}).value(); }
  size_t destination() { return number(record.destination()); }
  size_t some_helper() {
    return number(
        record.helpers(static_cast<int>(cluster.random_below(static_cast<uint64_t>(record.helpers_size())))));
  }

  /// The chunk is proven where the stripe says, and nowhere else; everything can be read.
  void expect_repaired() {
    KINTSUGI_EXPECT_OK(cluster.wait_until([this] { return whole(); }, kRepairedWithin));
    KINTSUGI_EXPECT_OK(cluster.check_contents());
  }

  /// After everybody is back: one copy of each chunk in the cluster.
  void expect_one_copy_each() {
    KINTSUGI_EXPECT_OK(cluster.wait_until_healthy());
    cluster.run_for(kOrphansEnd);
    Status stray = cluster.wait_until_no_stray_chunks(0s);
    for (Duration waited{}; !stray.ok() && waited < kStraysLive; waited += 5min) {
      cluster.run_for(5min);
      stray = cluster.wait_until_no_stray_chunks(0s);
    }
    KINTSUGI_EXPECT_OK(stray);
    for (const proto::Stripe& stripe : cluster.stripes_of("/file"))
      for (const auto& chunk : stripe.chunks())
        EXPECT_EQ(cluster.holders({StripeId{stripe.stripe_id()}, chunk.index()}).size(), 1u) << chunk.index();
    KINTSUGI_EXPECT_OK(cluster.check_contents());
  }

  /// The attempts to repair the lost chunk, oldest first.
  std::vector<proto::RepairRecord> attempts() {
    std::vector<proto::RepairRecord> found;
    for (const auto& one : cluster.repair_history())
      if (one.stripe_id() == lost.stripe.value && one.index() == lost.index) found.insert(found.begin(), one);
    return found;
  }

  /// The attempt that was hit failed, and its line names the server; the last one succeeded.
  void expect_history_names(size_t server) {
    const auto tried = attempts();
    ASSERT_FALSE(tried.empty());
    EXPECT_EQ(tried.back().outcome(), proto::RepairRecord::DONE);
    if (tried.size() == 1) return;  // it was through when the fault came
    const std::string name = "server " + SimulatedCluster::name(server);
    EXPECT_TRUE(std::any_of(tried.begin(), tried.end(),
                            [&](const proto::RepairRecord& one) {
                              return one.outcome() == proto::RepairRecord::FAILED &&
                                     one.detail().find(name) != std::string::npos;
                            }))
        << name << " is not in: " << tried.front().detail();
  }

  SimulatedCluster cluster;
  ChunkId lost;
  size_t victim = 0;
  proto::RepairRecord record;

 private:
  static repair_manager::Options options(const char* shape) {
    repair_manager::Options options;
    options.shape = proto::parse_shape(shape).value();
    options.slice_bytes = std::string_view(shape) == "ppr" ? kChunkBytes : 0;
    return options;
  }

  Status find_running() {
    const auto repairs = cluster.repair_status();
    if (!repairs) return repairs.error();
    for (const auto& one : repairs->running())
      if (one.stripe_id() == lost.stripe.value && one.index() == lost.index) {
        record = one;
        return {};
      }
    return {Code::kUnavailable, "no repair of the lost chunk is running"};
  }

  Status whole() {
    const auto check = cluster.fsck();
    if (!check) return check.error();
    if (check->missing_chunks() > 0)
      return {Code::kUnavailable, fmt::format("{} chunks are missing", check->missing_chunks())};
    const auto repairs = cluster.repair_status();
    if (!repairs) return repairs.error();
    if (repairs->running_size() > 0) return {Code::kUnavailable, "a repair is running"};
    return {};
  }
};

/// Runs `scenario(repair)` for every shape and seed.
template <class Scenario>
void for_each_shape(std::initializer_list<uint64_t> usual, Scenario scenario) {
  for (const char* shape : kShapes)
    for (const uint64_t seed : seeds(usual)) {
      SCOPED_TRACE(fmt::format("shape {}", shape));
      RunningRepair repair(seed, shape);
      KINTSUGI_ASSERT_OK(repair.start());
      scenario(repair);
    }
}

TEST(RepairFaults, AHelperThatDiesMidTreeIsNamedAndReplaced) {
  for_each_shape({1, 2, 3, 4, 5}, [](RunningRepair& repair) {
    const size_t helper = repair.some_helper();
    repair.cluster.crash_chunkserver(helper, Crash::kKill);
    repair.expect_repaired();
    repair.expect_history_names(helper);
    repair.cluster.restart_chunkserver(helper);
    repair.cluster.restart_chunkserver(repair.victim);
    repair.expect_one_copy_each();
  });
}

/// A helper whose machine stops, so that it says nothing either: the repair ends when the metaserver declares it dead, and not later.
void expect_hung_helper_costs_no_more_than_its_death(RunningRepair& repair) {
  const size_t helper = repair.some_helper();
  const Duration hung = repair.cluster.elapsed();
  repair.cluster.hang(helper);
  repair.cluster.network().isolate(SimulatedCluster::name(helper));
  repair.expect_repaired();
  repair.expect_history_names(helper);
  Duration last_done{};
  for (const proto::RepairRecord& attempt : repair.attempts()) {
    const auto took =
        std::chrono::duration_cast<Duration>(std::chrono::duration<double>(attempt.timing().seconds()));
    const Duration ended = repair.cluster.since_start(attempt.started_ns()) + took - hung;
    if (attempt.outcome() == proto::RepairRecord::FAILED) {
      EXPECT_LT(ended, kDeadAfter + 2s) << attempt.detail();
      EXPECT_NE(attempt.detail().find("was declared dead"), std::string::npos) << attempt.detail();
    } else {
      last_done = ended;
    }
  }
  EXPECT_LT(last_done, kDeadAfter + 10s);
  repair.cluster.crash_chunkserver(helper, Crash::kPower);
  repair.cluster.unhang(helper);
  repair.cluster.network().heal();
  repair.cluster.restart_chunkserver(helper);
  repair.cluster.restart_chunkserver(repair.victim);
  repair.expect_one_copy_each();
}

TEST(RepairFaults, AHelperThatHangsIsGivenUpWhenItIsDeclaredDead) {
  for_each_shape({11, 12, 13}, expect_hung_helper_costs_no_more_than_its_death);
}

TEST(RepairFaults, ARepairManagerOfItsOwnGivesUpAHelperThatIsDeclaredDeadToo) {
  for (const char* shape : kShapes)
    for (const uint64_t seed : seeds({14, 15})) {
      SCOPED_TRACE(fmt::format("shape {}", shape));
      RunningRepair repair(seed, shape, /*managers=*/2);
      KINTSUGI_ASSERT_OK(repair.start());
      expect_hung_helper_costs_no_more_than_its_death(repair);
    }
}

/// A helper that lives but whose disk hangs: the repair ends when the disk is known to hang, names the helper, and goes on
/// with another one.
TEST(RepairFaults, AHelperWhoseDiskHangsIsNamedAndReplacedAsSoonAsThatIsKnown) {
  for_each_shape({81, 82, 83}, [](RunningRepair& repair) {
    const size_t helper = repair.some_helper();
    const Duration hung = repair.cluster.elapsed();
    repair.cluster.disk(helper).set_hung(true, "/disk-0");
    repair.expect_repaired();
    repair.expect_history_names(helper);
    for (const proto::RepairRecord& attempt : repair.attempts()) {
      const auto took =
          std::chrono::duration_cast<Duration>(std::chrono::duration<double>(attempt.timing().seconds()));
      const Duration ended = repair.cluster.since_start(attempt.started_ns()) + took - hung;
      EXPECT_LT(ended, chunkserver::DiskHealth::kHungAfter + 8s) << attempt.detail();
    }
    const auto state = repair.cluster.liveness(helper);
    ASSERT_TRUE(state) << state.error();
    EXPECT_EQ(*state, proto::ServerState::ALIVE);
    repair.cluster.disk(helper).forget_faults();
    repair.cluster.restart_chunkserver(repair.victim);
    repair.expect_one_copy_each();
  });
}

TEST(RepairFaults, AHelperWhoseChunkRottedIsNamedAndItsChunkReplacedToo) {
  for_each_shape({21, 22, 23}, [](RunningRepair& repair) {
    const size_t helper = repair.some_helper();
    const proto::Stripe stripe = repair.cluster.stripes_of("/file").at(0);
    for (const auto& chunk : stripe.chunks()) {
      if (repair.number(chunk.server_id()) != helper) continue;
      ASSERT_TRUE(repair.cluster.rot(helper, {repair.lost.stripe, chunk.index()}));
    }
    repair.expect_repaired();
    repair.expect_history_names(helper);
    repair.cluster.restart_chunkserver(repair.victim);
    repair.expect_one_copy_each();
  });
}

TEST(RepairFaults, ARepairSiteThatDiesLeavesNothingAndAnotherTakesOver) {
  for_each_shape({31, 32, 33, 34}, [](RunningRepair& repair) {
    const size_t root = repair.destination();
    repair.cluster.crash_chunkserver(root, repair.cluster.random_below(2) ? Crash::kKill : Crash::kPower);
    repair.expect_repaired();
    ASSERT_FALSE(repair.attempts().empty());
    EXPECT_EQ(repair.attempts().back().outcome(), proto::RepairRecord::DONE);
    repair.cluster.restart_chunkserver(root);
    repair.cluster.restart_chunkserver(repair.victim);
    repair.expect_one_copy_each();
  });
}

TEST(RepairFaults, AMetaserverThatRestartsMidRepairTakesItUpAgain) {
  for_each_shape({41, 42, 43}, [](RunningRepair& repair) {
    repair.cluster.crash_metaserver();
    repair.cluster.run_for(repair.cluster.random_time(0ms, 5s));
    repair.cluster.restart_metaserver();
    repair.expect_repaired();
    repair.cluster.restart_chunkserver(repair.victim);
    repair.expect_one_copy_each();
  });
}

TEST(RepairFaults, APartitionThroughTheTreeIsSurvived) {
  for_each_shape({51, 52, 53}, [](RunningRepair& repair) {
    // Up to three servers on the far side: each stripe still has enough on the metaserver's.
    const auto away = repair.cluster.pick(1 + repair.cluster.random_below(3));
    for (const size_t server : away)
      repair.cluster.isolate(server);
    repair.cluster.run_for(repair.cluster.random_time(1s, 60s));
    for (const size_t server : away)
      repair.cluster.rejoin(server);
    repair.expect_repaired();
    repair.cluster.restart_chunkserver(repair.victim);
    repair.expect_one_copy_each();
  });
}

TEST(RepairFaults, AServerThatReturnsWhileItsChunkIsRepairedLeavesOneCopy) {
  for_each_shape({61, 62, 63, 64}, [](RunningRepair& repair) {
    repair.cluster.restart_chunkserver(repair.victim);
    repair.expect_repaired();
    ASSERT_FALSE(repair.attempts().empty());
    EXPECT_EQ(repair.attempts().back().outcome(), proto::RepairRecord::DONE);  // what has begun is finished
    repair.expect_one_copy_each();
  });
}

TEST(RepairFaults, TheCopyOfAFileThatIsRemovedMeanwhileGoesAtOnce) {
  size_t built = 0;
  for (const uint64_t seed : seeds({81, 82, 83, 84, 85})) {
    RunningRepair repair(seed, "chain");
    // Servers that have just met their metaserver report again after half a minute.
    KINTSUGI_ASSERT_OK(repair.start(2min));
    SimulatedCluster& cluster = repair.cluster;
    KINTSUGI_ASSERT_OK(cluster.remove("/file"));
    const auto ended = [&] { return cluster.status_of_repair_manager(0).running_size() == 0; };
    ASSERT_TRUE(cluster.simulation().run_until(ended, 1min));
    for (const proto::RepairRecord& attempt : cluster.history_of_repair_manager(0))
      built += attempt.detail().find("commit of chunk") != std::string::npos ? 1 : 0;
    cluster.run_for(20s);
    std::vector<size_t> holders = cluster.holders(repair.lost);
    std::erase(holders, repair.victim);
    EXPECT_EQ(holders, std::vector<size_t>{}) << "until the next block report, an hour later";
  }
  EXPECT_GT(built, 0u) << "no repair came to its commit";
}

TEST(RepairFaults, ACopyThatIsLostAtARestartBeforeItsCommitIsNotItsPlace) {
  size_t refused = 0;
  for (const uint64_t seed : seeds({91, 92, 93, 94})) {
    RunningRepair repair(seed, "chain");
    // Servers that have just met their metaserver report again after half a minute.
    KINTSUGI_ASSERT_OK(repair.start(2min));
    SimulatedCluster& cluster = repair.cluster;
    const size_t destination = repair.destination();
    const std::string manager = SimulatedCluster::repair_manager_name(0);
    cluster.run_for(20ms);  // the metaserver was asked if it would accept the copy
    cluster.network().cut(manager, "metaserver");
    const auto copied = [&] {
      const auto chunks = cluster.store(destination)->list({}, 100);
      return std::any_of(chunks.begin(), chunks.end(),
                         [&](const auto& one) { return one.id == repair.lost; });
    };
    ASSERT_TRUE(cluster.simulation().run_until(copied, 1min));
    cluster.run_for(10ms);  // the manager hears of it, and its commit is on its way
    cluster.crash_chunkserver(destination, Crash::kKill);
    KINTSUGI_ASSERT_OK(cluster.disk(destination).remove_all("/disk-0/chunks"));
    cluster.restart_chunkserver(destination);
    cluster.run_for(400ms);  // it registers and tells of its chunks, without this one
    ASSERT_NE(cluster.store(destination), nullptr);
    cluster.network().mend(manager, "metaserver");
    KINTSUGI_EXPECT_OK(cluster.wait_until_healthy());
    EXPECT_EQ(cluster.holders(repair.lost).size(), 2u) << "the victim's, and the new one";
    KINTSUGI_EXPECT_OK(cluster.check_contents());
    for (const proto::RepairRecord& attempt : repair.attempts())
      refused += attempt.detail().find("was started again since the repair began") != std::string::npos;
  }
  EXPECT_GT(refused, 0u) << "no commit came after the restart";
}

TEST(RepairFaults, TwoRepairsOfOneChunkEndAsOne) {
  for_each_shape({71, 72, 73}, [](RunningRepair& repair) {
    proto::RunRepairRequest request;
    request.set_stripe_id(repair.lost.stripe.value);
    request.set_index(repair.lost.index);
    request.set_shape(proto::RepairShape::STAR);
    const auto joined = repair.cluster.run(repair.cluster.client().run_repair(request));
    ASSERT_TRUE(joined) << joined.error();
    EXPECT_EQ(joined->record().outcome(), proto::RepairRecord::DONE);
    repair.expect_repaired();
    EXPECT_EQ(repair.attempts().size(), 1u);
    repair.cluster.restart_chunkserver(repair.victim);
    repair.expect_one_copy_each();
  });
}

}  // namespace
}  // namespace kintsugi::simulation
