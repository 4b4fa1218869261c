/// What keeps state for long: a directory whose names begin each other, with snapshots, and in some runs a quota or a trash.
///
/// What must hold: a snapshot shows the same names and bytes at every look, whatever is done to the directory; what a quota
/// counts is what is there; what lies in the trash comes back with its bytes.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tests/simulation/cluster/client_program.h"
#include "tests/simulation/cluster/simulated_cluster.h"
#include "tests/simulation/runtime/sim_random.h"
#include "tests/simulation/swarm/coverage.h"
#include "tests/simulation/swarm/violation.h"

namespace kintsugi::simulation {

class KeptTrees {
 public:
  static constexpr size_t kMostUnderWay = 6;
  static constexpr size_t kMostSnapshots = 4;
  struct Options {
    bool quota = false;
    bool trash = false;
  };

  KeptTrees(SimulatedCluster& cluster, Coverage& coverage, Options options)
      : cluster_(cluster), coverage_(coverage), options_(options) {}

  /// REQUIRES: called once, before any fault.
  Status start();
  /// Forgets what the client that crashed was doing: it may have happened or not.
  void client_crashed();

  // Each returns false when nothing was begun.
  bool begin_put(SimRandom& dice);
  bool begin_remove(SimRandom& dice);
  bool begin_rename(SimRandom& dice);
  bool begin_snapshot(SimRandom& dice);
  bool begin_drop(SimRandom& dice);
  bool begin_look(SimRandom& dice);

  size_t under_way() const { return running_.size(); }
  Finding take_finding() { return std::exchange(finding_, {}); }
  /// Looks at every snapshot, and at the quota, with no fault about: errors are findings then.
  Finding look_at_everything();
  /// Deletes the snapshots and empties the trash: nothing is kept any more that no file refers to.
  Finding let_go();

 private:
  using Shown = std::map<std::string, uint32_t>;  ///< the CRC of each file, by name
  struct Snapshot {
    std::string name;
    bool certain = false;        ///< it was made: to find it missing is an error
    bool dropped = false;        ///< somebody asked to delete it
    std::optional<Shown> shown;  ///< what the first look saw
  };
  using SnapshotPtr = std::shared_ptr<Snapshot>;
  struct Running {
    bool abandoned = false;  ///< its client crashed
  };
  using RunningPtr = std::shared_ptr<Running>;

  void begin(asio::awaitable<void> operation, RunningPtr running);
  bool may_begin() const { return running_.size() < kMostUnderWay; }
  std::string any_path(SimRandom& dice) const;
  SnapshotPtr any_snapshot(SimRandom& dice) const;

  asio::awaitable<void> put(ClientProgram& program, std::string path, std::vector<std::byte> bytes);
  asio::awaitable<void> remove(ClientProgram& program, std::string path);
  asio::awaitable<void> rename(ClientProgram& program, std::string from, std::string to);
  asio::awaitable<void> make_snapshot(ClientProgram& program, SnapshotPtr snapshot);
  asio::awaitable<void> drop(ClientProgram& program, SnapshotPtr snapshot);
  asio::awaitable<void> look(ClientProgram& program, SnapshotPtr snapshot, RunningPtr running,
                             bool must_succeed);
  asio::awaitable<Result<Shown>> show(client::Client& client, const std::string& directory);
  void compare(Snapshot& snapshot, const Shown& now);
  void note(std::string_view what, const Status& status);
  void found(Violation violation, std::string message);
  Finding check_quota();

  SimulatedCluster& cluster_;
  Coverage& coverage_;
  const Options options_;
  std::vector<SnapshotPtr> snapshots_;
  std::set<RunningPtr> running_;
  uint32_t next_snapshot_ = 1;
  Finding finding_;
};

}  // namespace kintsugi::simulation
