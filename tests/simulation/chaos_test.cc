// Random operations and faults, for as long as the cluster can bear them; then it must find itself again and
// everything acknowledged must be there.
#include <set>

#include "tests/simulation/cluster/simulated_cluster.h"

namespace kintsugi::simulation {
namespace {

constexpr int kRounds = 3;
constexpr int kStepsPerRound = 40;
constexpr size_t kVictims = 2;  ///< servers that a round may hurt: one less than the parity, since rot hides
constexpr size_t kPaths = 12;
constexpr size_t kMaxOperations = 6;
constexpr uint64_t kAcknowledgedAtLeast = 10;  ///< puts of a run, or it says nothing

class Chaos {
 public:
  explicit Chaos(uint64_t seed) : cluster_({.seed = seed, .chunkservers = 12, .racks = 6}) {}

  void run() {
    KINTSUGI_ASSERT_OK(cluster_.start());
    for (int round = 0; round < kRounds && !testing::Test::HasFailure(); ++round) {
      victims_ = cluster_.pick(kVictims);
      for (int step = 0; step < kStepsPerRound; ++step) {
        step_once();
        cluster_.run_for(cluster_.random_time(0ms, random(4) == 0 ? Duration(15s) : Duration(100ms)));
        collect();
      }
      end_round();
    }
    EXPECT_GE(acknowledged_, kAcknowledgedAtLeast);
  }

 private:
  void step_once() {
    switch (random(22)) {
      case 0:
      case 1:
      case 2:
      case 3:
      case 4:
      case 5: return begin_put();
      case 6:
      case 7:
      case 8: return begin_check();
      case 9: return begin_remove();
      case 10:
      case 11: return crash_or_restart();
      case 12: return crash_or_restart_metaserver();
      case 13: return cut_or_mend();
      case 14: return isolate_or_rejoin();
      case 15: return hang_or_unhang();
      case 16: return rot();
      case 17:
        return cluster_.network().drop_connections(SimulatedCluster::name(random(cluster_.chunkservers())));
      case 18: return fill_or_free();
      case 19: return power_failure();
      case 20: return cluster_.network().set_loss(cluster_.random().coin() ? 0.01 : 0);
      case 21: return jump_clock();
    }
  }

  // ---- operations
  /// A path with no operation under way, whose content is known: what an operation that failed may still do
  /// to it later would make the oracle guess.
  std::optional<std::string> free_path() {
    const std::string path = fmt::format("/file-{}", random(kPaths) + 100 * generation_);
    if (busy_.contains(path) || operations_.size() >= kMaxOperations || !cluster_.certain(path)) return {};
    return path;
  }
  void begin(SimulatedCluster::OperationPtr operation) {
    busy_.insert(operation->path);
    operations_.push_back(std::move(operation));
  }
  void begin_put() {
    const uint64_t size = random(3) == 0 ? random(100'000) : random(8'000'000);
    if (auto path = free_path()) begin(cluster_.start_put(*path, size));
  }
  void begin_remove() {
    if (auto path = free_path()) begin(cluster_.start_remove(*path));
  }
  void begin_check() {
    const auto paths = cluster_.paths();
    if (paths.empty() || operations_.size() >= kMaxOperations) return;
    const std::string& path = paths[random(paths.size())];
    if (!busy_.contains(path)) begin(cluster_.start_check(path));
  }
  void collect() {
    std::erase_if(operations_, [this](const auto& operation) {
      if (!operation->done) return false;
      // Whatever fails may fail now, but wrong bytes are wrong at any time.
      EXPECT_NE(operation->status.code(), Code::kCorrupt) << operation->status;
      busy_.erase(operation->path);
      if (operation->status.ok() && cluster_.exists(operation->path)) ++acknowledged_;
      return true;
    });
  }

  // ---- faults
  size_t victim() { return victims_[random(victims_.size())]; }
  Crash how() { return cluster_.random().coin() ? Crash::kKill : Crash::kPower; }

  void crash_or_restart() {
    const size_t server = victim();
    if (cluster_.running(server)) return cluster_.crash_chunkserver(server, how());
    cluster_.restart_chunkserver(server);
  }
  void crash_or_restart_metaserver() {
    if (cluster_.metaserver_running()) return cluster_.crash_metaserver(how());
    cluster_.restart_metaserver();
  }
  void cut_or_mend() {
    const std::string other = cluster_.random().coin() ? "client" : "metaserver";
    const size_t server = victim();
    if (cluster_.network().reachable(SimulatedCluster::name(server), other))
      return cluster_.cut(server, other);
    cluster_.mend(server, other);
  }
  void isolate_or_rejoin() {
    const size_t server = victim();
    if (isolated_.erase(server) > 0) return cluster_.rejoin(server);
    isolated_.insert(server);
    cluster_.isolate(server);
  }
  void hang_or_unhang() {
    const size_t server = victim();
    hung_.insert(server);
    if (cluster_.random().coin()) return cluster_.hang(server);
    cluster_.unhang(server);
  }
  void fill_or_free() {
    const size_t server = random(cluster_.chunkservers());
    if (cluster_.random().coin()) return cluster_.disk(server).fill();
    cluster_.disk(server).set_capacity("/", SimDisk::kDefaultCapacity);
  }
  void rot() {
    const size_t server = victim();
    const auto chunks = cluster_.chunk_files(server);
    if (!chunks.empty()) cluster_.rot(server, chunks[random(chunks.size())]);
  }
  void jump_clock() {
    const Duration offset = cluster_.random_time(0s, 20min) - 10min;
    const uint64_t who = random(cluster_.chunkservers() + 1);
    if (who == cluster_.chunkservers()) return cluster_.set_metaserver_wall_offset(offset);
    cluster_.set_wall_offset(who, offset);
  }
  void power_failure() {
    if (random(4) != 0) return;
    cluster_.crash_all(Crash::kPower);
    cluster_.run_for(cluster_.random_time(0s, 20s));
    collect();
    cluster_.restart_all();
  }

  // ---- the end of a round: all faults are over
  void end_round() {
    cluster_.network().heal();
    cluster_.network().set_loss(0);
    isolated_.clear();
    for (size_t server = 0; server < cluster_.chunkservers(); ++server) {
      cluster_.unhang(server);
      cluster_.disk(server).set_capacity("/", SimDisk::kDefaultCapacity);
    }
    // Operations that hang already would hang for a long time yet.
    for (const size_t server : std::exchange(hung_, {}))
      if (cluster_.running(server)) cluster_.crash_chunkserver(server, Crash::kPower);
    cluster_.restart_all();
    for (const auto& operation : operations_)
      (void)cluster_.finish(operation);
    collect();
    KINTSUGI_EXPECT_OK(cluster_.wait_until_healthy(30min));
    KINTSUGI_EXPECT_OK(cluster_.check_contents());
    // Reading may have found rot.
    KINTSUGI_EXPECT_OK(cluster_.wait_until_healthy(30min));
    KINTSUGI_EXPECT_OK(cluster_.check_contents());
    ++generation_;
  }

  uint64_t random(uint64_t bound) { return cluster_.random_below(bound); }

  SimulatedCluster cluster_;
  std::vector<size_t> victims_;
  std::set<size_t> isolated_, hung_;
  std::vector<SimulatedCluster::OperationPtr> operations_;
  std::set<std::string> busy_;
  uint64_t generation_ = 0;
  uint64_t acknowledged_ = 0;
};

TEST(Chaos, NothingAcknowledgedIsLostWhateverHappens) {
  for (const uint64_t seed : seeds({1, 2, 3, 4, 5, 6, 7, 8}))
    Chaos(seed).run();
}

}  // namespace
}  // namespace kintsugi::simulation
