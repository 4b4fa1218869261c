/// What a seed stands for: the shape of a cluster, the code, the load, the mix of faults, and a list of steps.
///
/// Every seed leaves most kinds of faults out and stresses some (swarm testing: Groce et al. 2012), since faults that are
/// always there hide what only their absence shows.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/runtime/clock.h"
#include "tests/simulation/cluster/simulated_cluster.h"

namespace kintsugi::simulation {

enum class Act : uint8_t {
  // Operations of clients.
  kPut,
  kCreate,
  kRemove,
  kRename,
  kRead,
  kList,
  kSetPolicy,
  // Of clients with open files (Appenders).
  kAppend,
  kChangeMode,
  kReadLog,
  // In a directory that is kept by snapshots, a quota or a trash (KeptTrees).
  kKeptPut,
  kKeptRemove,
  kKeptRename,
  kSnapshot,
  kDropSnapshot,
  kLookAtSnapshot,
  // Machines and processes.
  kCrashServer,  ///< or restart it, when it is down
  kCrashMetaserver,
  kCrashClient,
  kCrashAll,  ///< and restart everything a little later
  kRestart,   ///< of a chunkserver, at once
  // The network.
  kCut,
  kCutOneWay,
  kIsolate,
  kDropConnections,
  kLateServer,
  kSlowLink,
  kLoss,
  kFlipsInFlight,
  kResets,  ///< connections break now and then, so that requests and answers are lost
  kMendNetwork,
  // Disks.
  kHangDisk,
  kSlowDisk,
  kMendDisk,
  kFillDisk,
  kRotChunk,
  kRotAnywhere,
  kFailReads,
  kFailWrites,
  kBreakDisk,
  kWipeDisk,     ///< takes the directory away from under a running server
  kReplaceDisk,  ///< the same while the server is down: it comes back with an empty disk
  kSwapDisks,    ///< two disks of one server change places
  // Clocks.
  kJumpClock,
  kDriftClock,
  // Operators.
  kDrain,
  kAddServer,
  kRollBackMetadata,
  // One disk of a server, which may have another one that is well.
  kHangOneDisk,
  kSlowOneDisk,
  kReadOnlyDisk,
  kSpoilBlock,  ///< a block of a chunk cannot be read until it is written again
  kMendOneDisk,
  /// Calls to a disk that block the program's thread: nothing else of the server goes on meanwhile.
  kBlockingCalls,
  // Repair managers.
  kCrashManager,  ///< or restart it, when it is down
  kCutManager,    ///< from the metaserver, or from everybody
  kCount
};

std::string_view name_of(Act act);

/// Nothing in a step depends on another step, so that any of them can be left out.
struct Step {
  uint32_t number = 0;
  Act act = Act::kPut;
  uint64_t dice = 0;  ///< all chance within the step comes from it
  Duration pause{};   ///< time that passes after it
};

struct Schedule {
  ClusterOptions cluster;
  std::vector<std::string> policies;  ///< that kSetPolicy chooses from, which the cluster is large enough for
  uint64_t largest_file = 0;
  bool quota = false, trash = false;  ///< of the directory that KeptTrees use
  size_t most_operations = 6;         ///< under way at once
  std::vector<Step> steps;
  /// A server one of whose disks failed is not started again when faults end: nobody else comes to mend what it forgot.
  bool failed_disks_stay = false;
  size_t rounds = 2;  ///< the steps are cut into so many; after each, faults end and all must be well
};

/// The same for the same arguments, always.
Schedule make_schedule(uint64_t seed, size_t steps);

/// Nothing in it fails but clients, if those.
bool only_clients_fail(const Schedule& schedule);

/// One line: servers, racks, disks, policy, and the faults that this seed stresses.
std::string in_words(const Schedule& schedule);

}  // namespace kintsugi::simulation
