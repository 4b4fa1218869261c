/// What a swarm does to the disks of servers and to what lies on them.
#pragma once

#include <optional>
#include <set>
#include <string>

#include "tests/simulation/cluster/simulated_cluster.h"
#include "tests/simulation/swarm/inspector.h"
#include "tests/simulation/swarm/schedule.h"

namespace kintsugi::simulation {

/// Knows which servers must be started again for it once faults are over.
class DiskFaults {
 public:
  /// `absent`: servers that were not added yet. `disks`: how many each server has. All that is referred to outlives it.
  DiskFaults(SimulatedCluster& cluster, Inspector& inspector, const std::set<size_t>& absent, size_t disks)
      : cluster_(cluster), inspector_(inspector), absent_(absent), disks_(disks) {}

  /// Does one act to a disk of the server. Returns true when it had an effect.
  bool act(Act act, size_t server, SimRandom& dice);
  /// All disks of the server hang.
  void hang(size_t server);
  bool may_hang(size_t server) const { return hung_.contains(server) || one_disk_hung_.contains(server); }
  /// REQUIRES: all faults of disks are over. Returns the servers that must be started again.
  std::set<size_t> end(bool failed_disks_stay);

 private:
  bool damage(Act act, size_t server, SimRandom& dice);
  bool replace_disk(size_t server, SimRandom& dice);
  /// A chunk on the server that may be lost; none: there is none.
  std::optional<ChunkId> chunk_to_hurt(size_t server, SimRandom& dice) const;
  bool rot_chunk(size_t server, SimRandom& dice);
  bool rot_anywhere(size_t server, SimRandom& dice);
  bool spoil_block(size_t server, SimRandom& dice);
  /// Does what loses nothing.
  bool hurt_one_disk(Act act, size_t server, SimRandom& dice);
  /// Blocks as a system call does that the kernel carries out in place.
  bool block_in_calls(size_t server, SimRandom& dice);
  std::string disk_of(SimRandom& dice) const;
  /// The server runs, and not all of its disks have failed.
  bool has_a_disk(size_t server) const;

  SimulatedCluster& cluster_;
  Inspector& inspector_;
  const std::set<size_t>& absent_;
  const size_t disks_;
  std::set<size_t> hung_;           ///< servers that must be started again when faults end
  std::set<size_t> one_disk_hung_;  ///< servers one of whose disks hangs, or did: they go on by themselves
  std::set<size_t> sick_;           ///< servers with a disk that may have failed
};

}  // namespace kintsugi::simulation
