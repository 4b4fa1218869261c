#include "tests/simulation/swarm/schedule.h"

#include <algorithm>
#include <array>
#include <set>

#include <fmt/format.h>

#include "common/base/assert.h"
#include "common/base/hash.h"
#include "erasure/policy.h"
#include "tests/simulation/runtime/sim_random.h"

namespace kintsugi::simulation {
namespace {

constexpr size_t kActs = static_cast<size_t>(Act::kCount);
constexpr size_t kFirstFault = static_cast<size_t>(Act::kCrashServer);
constexpr size_t kFirstOfOneDisk = static_cast<size_t>(Act::kHangOneDisk);
constexpr size_t kLastOfOneDisk = static_cast<size_t>(Act::kMendOneDisk);
constexpr std::array<std::string_view, kActs> kNames = {"put",
                                                        "create",
                                                        "remove",
                                                        "rename",
                                                        "read",
                                                        "list",
                                                        "set-policy",
                                                        "append",
                                                        "change-mode",
                                                        "read-log",
                                                        "kept-put",
                                                        "kept-remove",
                                                        "kept-rename",
                                                        "snapshot",
                                                        "drop-snapshot",
                                                        "look-at-snapshot",
                                                        "crash-server",
                                                        "crash-meta",
                                                        "crash-client",
                                                        "crash-all",
                                                        "restart",
                                                        "cut",
                                                        "cut-one-way",
                                                        "isolate",
                                                        "drop-connections",
                                                        "late-server",
                                                        "slow-link",
                                                        "loss",
                                                        "flips",
                                                        "resets",
                                                        "mend-network",
                                                        "hang-disk",
                                                        "slow-disk",
                                                        "mend-disk",
                                                        "fill-disk",
                                                        "rot-chunk",
                                                        "rot-anywhere",
                                                        "fail-reads",
                                                        "fail-writes",
                                                        "break-disk",
                                                        "wipe-disk",
                                                        "replace-disk",
                                                        "swap-disks",
                                                        "jump-clock",
                                                        "drift-clock",
                                                        "drain",
                                                        "add-server",
                                                        "roll-back-metadata",
                                                        "hang-one-disk",
                                                        "slow-one-disk",
                                                        "read-only-disk",
                                                        "spoil-block",
                                                        "mend-one-disk",
                                                        "blocking-calls",
                                                        "crash-manager",
                                                        "cut-manager"};

/// Codes with cells of the smallest size, so that files of some hundred KiB have several chunks.
constexpr std::string_view kPolicies[] = {"rs-2-1-64k", "rs-2-2-64k",        "rs-3-2-64k",    "rs-4-2-64k",
                                          "rs-6-3-64k", "replication-3-64k", "lrc-4-2-1-64k", "rrs-3-2-256k"};

uint32_t chunks_of(std::string_view policy) {
  const auto parsed = erasure::Policy::parse(policy);
  KINTSUGI_ASSERT(parsed);
  return parsed->chunks();
}

/// How often each act is drawn, in all: 0 leaves it out.
std::array<uint32_t, kActs> draw_weights(SimRandom& random) {
  std::array<uint32_t, kActs> weights{};
  for (size_t act = 0; act < kFirstFault; ++act)
    weights[act] = 1 + static_cast<uint32_t>(random.below(12));
  // What holds on to state for long takes part in half of the seeds each.
  const auto leave_out = [&](Act first, Act last) {
    for (size_t act = static_cast<size_t>(first); act <= static_cast<size_t>(last); ++act)
      weights[act] = 0;
  };
  if (random.coin()) leave_out(Act::kAppend, Act::kReadLog);
  if (random.coin()) leave_out(Act::kKeptPut, Act::kLookAtSnapshot);
  weights[static_cast<size_t>(Act::kPut)] += 10;
  weights[static_cast<size_t>(Act::kRead)] += 6;
  weights[static_cast<size_t>(Act::kSetPolicy)] = random.below(4) == 0 ? 3 : 0;
  // One seed in sixteen has no faults at all, or none but clients that are killed; the others have a few kinds or many
  // of them.
  const uint64_t share = random.below(16);
  for (size_t act = kFirstFault; act < kFirstOfOneDisk; ++act) {
    const bool chosen = random.below(16) < share;
    const auto weight = 1 + static_cast<uint32_t>(random.below(6));
    weights[act] = chosen ? weight : 0;
  }
  if (share == 0 && random.coin()) weights[static_cast<size_t>(Act::kCrashClient)] = 6;
  // These take long, so that a run has one or two of them.
  for (const Act act : {Act::kRollBackMetadata, Act::kCrashAll})
    weights[static_cast<size_t>(act)] = std::min(1u, weights[static_cast<size_t>(act)]);
  const auto has = [&](Act act) { return weights[static_cast<size_t>(act)] > 0; };
  // What is broken must be mended now and then, or runs end in silence.
  if (has(Act::kCut) || has(Act::kCutOneWay) || has(Act::kIsolate) || has(Act::kLateServer) ||
      has(Act::kSlowLink))
    weights[static_cast<size_t>(Act::kMendNetwork)] = 4;
  if (has(Act::kHangDisk) || has(Act::kSlowDisk) || has(Act::kFillDisk) || has(Act::kBreakDisk))
    weights[static_cast<size_t>(Act::kMendDisk)] = 4;
  return weights;
}

/// Adds faults of one disk among several to one seed in three. They are drawn apart from the others, so that all other seeds
/// stay what they were.
void draw_faults_of_one_disk(uint64_t seed, ClusterOptions& cluster, std::array<uint32_t, kActs>& weights) {
  SimRandom random(mix_bits(seed) ^ hash_name("one disk"));
  if (random.below(3) != 0) return;
  cluster.disks = 2;
  for (size_t act = kFirstOfOneDisk; act <= kLastOfOneDisk; ++act)
    weights[act] = random.coin() ? 1 + static_cast<uint32_t>(random.below(5)) : 0;
  weights[static_cast<size_t>(Act::kMendOneDisk)] = 3;
}

/// Adds calls that block to one seed in four, drawn apart for the same reason.
void draw_blocking_calls(uint64_t seed, std::array<uint32_t, kActs>& weights) {
  SimRandom random(mix_bits(seed) ^ hash_name("blocking calls"));
  if (random.below(4) != 0) return;
  weights[static_cast<size_t>(Act::kBlockingCalls)] = 1 + static_cast<uint32_t>(random.below(5));
}

/// Adds faults of repair managers to one seed in three, drawn apart for the same reason.
void draw_faults_of_managers(uint64_t seed, std::array<uint32_t, kActs>& weights) {
  SimRandom random(mix_bits(seed) ^ hash_name("repair managers"));
  if (random.below(3) != 0) return;
  weights[static_cast<size_t>(Act::kCrashManager)] = 1 + static_cast<uint32_t>(random.below(6));
  if (random.coin()) return;
  weights[static_cast<size_t>(Act::kCutManager)] = 1 + static_cast<uint32_t>(random.below(4));
  uint32_t& mend = weights[static_cast<size_t>(Act::kMendNetwork)];
  mend = std::max(mend, 4u);
}

Act draw_act(SimRandom& random, const std::array<uint32_t, kActs>& weights) {
  uint64_t sum = 0;
  for (const uint32_t weight : weights)
    sum += weight;
  uint64_t at = random.below(sum);
  for (size_t act = 0; act < kActs; ++act) {
    if (at < weights[act]) return static_cast<Act>(act);
    at -= weights[act];
  }
  KINTSUGI_ASSERT(!"the weights add up to their sum");
  return Act::kPut;
}

Duration draw_pause(SimRandom& random) {
  switch (random.below(8)) {
    case 0: return {};
    case 1: return std::chrono::milliseconds(random.below(3000));
    case 2: return std::chrono::milliseconds(random.below(500));
    default: return std::chrono::milliseconds(random.below(60));
  }
}

}  // namespace

std::string_view name_of(Act act) {
  return kNames[static_cast<size_t>(act)];
}

Schedule make_schedule(uint64_t seed, size_t steps) {
  SimRandom random(mix_bits(seed) ^ hash_name("schedule"));
  Schedule schedule;
  ClusterOptions& cluster = schedule.cluster;
  cluster.seed = seed;
  cluster.policy = kPolicies[random.below(std::size(kPolicies))];
  const uint32_t chunks = chunks_of(cluster.policy);
  cluster.chunkservers = chunks + random.below(4);
  cluster.late_servers = random.below(3) == 0 ? random.below(cluster.chunkservers - chunks + 1) : 0;
  cluster.racks = 1 + random.below(cluster.chunkservers);
  cluster.disks = 1 + random.below(2);
  cluster.repair_managers = random.below(8) == 0 ? 2 : 1;
  cluster.chunk_bytes = 1 << 20;
  cluster.cache_bytes = random.coin() ? uint64_t{8} << 20 : 0;
  cluster.heartbeat_interval = std::chrono::milliseconds(200 + random.below(400));
  cluster.suspect_after = 3 * cluster.heartbeat_interval;
  cluster.dead_after = 8 * cluster.heartbeat_interval;
  cluster.upload_ttl = std::chrono::seconds(60);
  cluster.repair_delay = random.below(4) == 0 ? Duration(std::chrono::seconds(2)) : Duration{};
  for (const std::string_view policy : kPolicies)
    if (chunks_of(policy) <= chunks) schedule.policies.emplace_back(policy);
  schedule.largest_file = random.below(10) == 0 ? 5'000'000 : 20'000 + random.below(600'000);
  schedule.most_operations = 2 + random.below(6);
  schedule.failed_disks_stay = random.coin();
  cluster.clients = 3;
  schedule.quota = random.below(3) == 0;
  schedule.trash = random.below(3) == 0;
  auto weights = draw_weights(random);
  draw_faults_of_one_disk(seed, cluster, weights);
  draw_blocking_calls(seed, weights);
  draw_faults_of_managers(seed, weights);
  for (uint32_t number = 0; number < steps; ++number)
    schedule.steps.push_back({number, draw_act(random, weights), random.next(), draw_pause(random)});
  return schedule;
}

bool only_clients_fail(const Schedule& schedule) {
  return std::none_of(schedule.steps.begin(), schedule.steps.end(), [](const Step& step) {
    return static_cast<size_t>(step.act) >= kFirstFault && step.act != Act::kCrashClient;
  });
}

std::string in_words(const Schedule& schedule) {
  const ClusterOptions& cluster = schedule.cluster;
  std::set<Act> faults;
  for (const Step& step : schedule.steps)
    if (static_cast<size_t>(step.act) >= kFirstFault) faults.insert(step.act);
  std::vector<std::string_view> names;
  for (const Act act : faults)
    names.push_back(name_of(act));
  return fmt::format("{} servers of {} disks in {} racks, {}, files up to {} bytes; faults: {}",
                     cluster.chunkservers, cluster.disks, cluster.racks, cluster.policy,
                     schedule.largest_file,
                     names.empty() ? "none" : fmt::format("{}", fmt::join(names, " ")));
}

}  // namespace kintsugi::simulation
