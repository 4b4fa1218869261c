// The real repair manager on a cluster of any size, whose links are a fluid (repair_manager/what_if): how long the
// repair of many lost chunks takes, against the bound that bandwidth sets, and what planning costs.
//
//   repair_schedule_bench [--servers 83] [--policy rs-12-4-1024k] [--chunk-mib 64] [--rate-mbit 1400]
//       [--lost 1,5,10,20,50,100,150,300,1000] [--modes qfs,star,ppr,chain,joint] [--seeds 3] [--slots 16]
//       [--slow-percent 0: of the servers, whose links have a quarter of the rate]
//
// Server 1 dies with `lost` chunks of as many stripes, whose other chunks are on random distinct servers.
//   qfs    traditional repair: the first k chunks by index to the least loaded server, as many at once as
//   slots star   the same shape, servers chosen by m-PPR (greedy) ppr    m-PPR as the text has it: greedy,
//   unsliced binomial trees chain  m-PPR with repair pipelining joint  the joint schedule
// joint is all as it is by default. The bound: every rebuilt chunk moves k chunks, over links of at most
// their rate, and no chunk is rebuilt faster than a link carries one: max(k * lost * C / sum of B, C / B).
// The placement bound knows also which servers hold what a lost chunk can be rebuilt from
// (placement_bound.h). The model is in fluid_cluster.h; planning_us is the real time of everything but the
// model of the network, the simulator's own included. Prints one JSON document.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "common/log/log.h"
#include "repair_manager/manager/repair_manager.h"
#include "tests/benchmarks/lost_server.h"
#include "tests/simulation/runtime/sim_node.h"

namespace kintsugi::repair_manager {
namespace {

using what_if::FluidCluster;
using what_if::FluidSettings;

struct RealClock final : runtime::Clock {
  TimePoint now() const override { return std::chrono::steady_clock::now(); }
  WallTime wall_now() const override { return {}; }
  runtime::TimerId call_at(TimePoint, std::function<void()>) override { return {}; }
  bool cancel(runtime::TimerId) override { return false; }
};

struct Settings {
  FluidSettings cluster;
  std::string lost = "1,5,10,20,50,100,150,300,1000";
  std::string modes = "qfs,star,ppr,chain,joint";
  uint64_t seeds = 3;
  uint32_t slots = Options{}.max_per_server;
};

/// The repair before trees, without any repair manager: the first k chunks by index, to the least loaded
/// server that holds none of the stripe, in the queue's order.
class TraditionalRepair {
 public:
  TraditionalRepair(FluidCluster& cluster, const FluidSettings& settings, uint32_t slots)
      : cluster_(cluster),
        chunk_bytes_(static_cast<double>(settings.chunk_bytes)),
        k_(erasure::Policy::parse(settings.policy)->k),
        slots_(slots),
        waiting_(cluster.missing_chunks()[what_if::kDead]),
        helping_(settings.servers),
        receiving_(settings.servers) {
    start_what_fits();
  }

  size_t done() const { return done_; }

 private:
  void start_what_fits() {
    std::erase_if(waiting_, [this](ChunkId chunk) { return start(chunk); });
  }

  bool start(ChunkId chunk) {
    std::vector<uint32_t> helpers;
    std::vector<bool> holds(helping_.size());
    const std::optional<StripeView> stripe = cluster_.stripe(chunk.stripe);
    for (const ChunkView& other : stripe->chunks) {
      const auto position = static_cast<uint32_t>(other.server.value - 1);
      holds[position] = true;
      if (!other.available || helpers.size() >= k_) continue;
      if (helping_[position] >= slots_) return false;
      helpers.push_back(position);
    }
    std::optional<uint32_t> to;
    for (uint32_t i = 0; i < holds.size(); ++i)
      if (!holds[i] &&
          (!to || std::pair(receiving_[i], helping_[i]) < std::pair(receiving_[*to], helping_[*to])))
        to = i;
    if (receiving_[*to] >= slots_) return false;
    ++receiving_[*to];
    const auto open = std::make_shared<size_t>(helpers.size());
    for (uint32_t helper : helpers) {
      ++helping_[helper];
      cluster_.send(helper, *to, chunk_bytes_, [this, helper, to = *to, open] {
        --helping_[helper];
        if (--*open > 0) return;
        --receiving_[to];
        ++done_;
        start_what_fits();
      });
    }
    return true;
  }

  FluidCluster& cluster_;
  double chunk_bytes_;
  uint32_t k_, slots_;
  size_t done_ = 0;
  std::vector<ChunkId> waiting_;
  std::vector<uint32_t> helping_, receiving_;
};

struct Measured {
  double seconds = 0, bound = 0, placement_bound = 0;
  double planning_seconds = 0;  // real time of all but the network
  double network_seconds = 0;   // real time of the network's rates
  size_t failed = 0;
};

Measured measure(const Settings& settings, const std::string& mode, uint64_t seed) {
  simulation::Simulation simulation(seed);
  const RealClock real_clock;
  what_if::FluidState state = what_if::lost_server(settings.cluster, simulation.random());
  state.network.stopwatch = &real_clock;
  FluidCluster cluster(simulation.executor(), simulation.clock(), std::move(state));
  Measured measured{.bound = what_if::bound_seconds(cluster, settings.cluster),
                    .placement_bound = what_if::placement_bound_seconds(cluster, settings.cluster)};
  const TimePoint began = simulation.now();
  const TimePoint real_began = real_clock.now();
  const auto healthy = [&] { return cluster.commits().size() == settings.cluster.lost; };
  if (mode == "qfs") {
    const TraditionalRepair repair(cluster, settings.cluster, settings.slots);
    if (!simulation.run_until([&] { return repair.done() == settings.cluster.lost; }, 1000h)) std::abort();
  } else {
    simulation::SimNode node(simulation, "meta");
    Options options{.max_per_server = settings.slots,
                    .min_deadline = 1h,
                    .link = {.bytes_per_second = settings.cluster.rate},
                    .schedule = mode == "joint" ? Schedule::kJoint : Schedule::kGreedy};
    if (mode == "star") options.shape = Shape::STAR;
    if (mode == "ppr") {
      options.shape = Shape::PPR;
      options.slice_bytes = settings.cluster.chunk_bytes;
    }
    if (mode == "chain") options.shape = Shape::CHAIN;
    RepairManager manager(node.runtime(), options, cluster, nullptr);
    manager.start();
    manager.server_dead(what_if::kDead, cluster.missing_chunks()[what_if::kDead]);
    if (!simulation.run_until(healthy, 1000h)) std::abort();
    measured.failed = manager.status().failed();
    simulation.run_for(1s);
    simulation.run(manager.stop());
  }
  const double real = to_seconds(real_clock.now() - real_began);
  measured.seconds = to_seconds(simulation.now() - began) - (mode == "qfs" ? 0 : 1);
  measured.network_seconds = cluster.network().seconds_spent();
  measured.planning_seconds = real - cluster.network().seconds_spent();
  return measured;
}

std::vector<std::string> split(const std::string& list) {
  std::vector<std::string> parts;
  for (size_t at = 0; at <= list.size();) {
    const size_t end = std::min(list.find(',', at), list.size());
    parts.push_back(list.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

Settings parse(int argc, char** argv) {
  Settings settings;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i], value = argv[i + 1];
    if (name == "--servers")
      settings.cluster.servers = std::stoull(value);
    else if (name == "--policy")
      settings.cluster.policy = value;
    else if (name == "--chunk-mib")
      settings.cluster.chunk_bytes = std::stoull(value) << 20;
    else if (name == "--rate-mbit")
      settings.cluster.rate = std::stod(value) * 1e6 / 8;
    else if (name == "--slow-percent")
      settings.cluster.slow_percent = static_cast<uint32_t>(std::stoul(value));
    else if (name == "--lost")
      settings.lost = value;
    else if (name == "--modes")
      settings.modes = value;
    else if (name == "--seeds")
      settings.seeds = std::stoull(value);
    else if (name == "--slots")
      settings.slots = static_cast<uint32_t>(std::stoul(value));
    else {
      fmt::print(stderr, "unknown option {}\n", name);
      std::exit(2);
    }
  }
  return settings;
}

void run(Settings settings) {
  FluidSettings& cluster = settings.cluster;
  const double alone = static_cast<double>(cluster.chunk_bytes) / cluster.rate;
  fmt::print(
      "{{\"servers\": {}, \"policy\": \"{}\", \"chunk_mib\": {}, \"rate_mbit\": {}, \"slow_percent\": {}, "
      "\"seeds\": {}, \"slots\": {}, \"chunk_seconds\": {:.3f},\n \"results\": [\n",
      cluster.servers, cluster.policy, cluster.chunk_bytes >> 20, cluster.rate * 8 / 1e6,
      cluster.slow_percent, settings.seeds, settings.slots, alone);
  bool first = true;
  for (const std::string& lost : split(settings.lost)) {
    cluster.lost = std::stoull(lost);
    std::optional<double> traditional;
    for (const std::string& mode : split(settings.modes)) {
      Measured mean;
      for (uint64_t seed = 1; seed <= settings.seeds; ++seed) {
        const Measured one = measure(settings, mode, seed);
        mean.seconds += one.seconds / static_cast<double>(settings.seeds);
        mean.bound += one.bound / static_cast<double>(settings.seeds);
        mean.placement_bound += one.placement_bound / static_cast<double>(settings.seeds);
        mean.planning_seconds += one.planning_seconds / static_cast<double>(settings.seeds * cluster.lost);
        mean.network_seconds += one.network_seconds / static_cast<double>(settings.seeds * cluster.lost);
        mean.failed += one.failed;
      }
      if (mode == "qfs") traditional = mean.seconds;
      const auto reduction = [&](double seconds) {
        return traditional ? fmt::format("{:.1f}", 100 * (1 - seconds / *traditional)) : "null";
      };
      fmt::print(
          "{}  {{\"lost\": {}, \"mode\": \"{}\", \"seconds\": {:.6f}, \"bound_seconds\": {:.3f}, "
          "\"ratio\": {:.3f}, \"placement_bound_seconds\": {:.3f}, \"placement_ratio\": {:.3f}, "
          "\"chunk_times\": {:.2f}, \"reduction_percent\": {}, "
          "\"room_percent\": {}, \"placement_room_percent\": {}, \"planning_us\": {:.0f}, \"network_us\": "
          "{:.0f}, \"failed\": {}}}",
          first ? "" : ",\n", lost, mode, mean.seconds, mean.bound, mean.seconds / mean.bound,
          mean.placement_bound, mean.seconds / mean.placement_bound, mean.seconds / alone,
          reduction(mean.seconds), reduction(mean.bound), reduction(mean.placement_bound),
          mean.planning_seconds * 1e6, mean.network_seconds * 1e6, mean.failed);
      std::fflush(stdout);
      first = false;
    }
  }
  fmt::print("\n]}}\n");
}

}  // namespace
}  // namespace kintsugi::repair_manager

int main(int argc, char** argv) {
  kintsugi::log::set_level(kintsugi::log::Level::kError);
  kintsugi::repair_manager::run(kintsugi::repair_manager::parse(argc, argv));
}
