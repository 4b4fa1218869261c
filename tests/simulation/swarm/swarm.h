/// One run of a schedule: a cluster under load and faults that is judged after every step.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "metaserver/chunks/chunk_map.h"
#include "tests/simulation/cluster/simulated_cluster.h"
#include "tests/simulation/swarm/appenders.h"
#include "tests/simulation/swarm/coverage.h"
#include "tests/simulation/swarm/disk_faults.h"
#include "tests/simulation/swarm/file_operations.h"
#include "tests/simulation/swarm/inspector.h"
#include "tests/simulation/swarm/kept_trees.h"
#include "tests/simulation/swarm/schedule.h"
#include "tests/simulation/swarm/violation.h"

namespace kintsugi::simulation {

class Swarm {
 public:
  /// How long the cluster may take to be well again once all faults are over, in virtual time.
  static constexpr Duration kRecoveryLimit = std::chrono::minutes(10);
  /// A reader that got damaged bytes over the network complains of a chunk that is well, and for so long the metaserver believes it.
  static constexpr Duration kWrongComplaint = metaserver::ChunkMap::kDistrust;

  explicit Swarm(const Schedule& schedule);
  /// Takes the cluster apart, which must end too. To be left out after a finding: exit the process instead.
  ~Swarm();

  /// Runs the steps for which `wanted` holds, with rounds that end where they do in the whole schedule.
  Finding run(const std::function<bool(const Step&)>& wanted);
  const Coverage& coverage() const { return coverage_; }
  /// The last lines of the daemons' logs, with their virtual times.
  const std::deque<std::string>& last_lines() const { return lines_; }

 private:
  Finding run_guarded(const std::function<bool(const Step&)>& wanted);
  Finding start();
  Finding step(const Step& step);
  /// Lets time pass and looks.
  Finding pass(Duration time);
  /// Returns true when the act had an effect.
  bool act(Act act, SimRandom& dice);
  bool operate(Act act, SimRandom& dice);
  bool operate_beside(Act act, SimRandom& dice);
  bool break_something(Act act, SimRandom& dice);
  bool begin(LinearDirectory::Kind kind, SimRandom& dice);

  bool crash_or_restart_server(SimRandom& dice);
  bool restart_server(SimRandom& dice);
  void restart_server(size_t server);
  bool crash_or_restart_metaserver(SimRandom& dice);
  bool crash_everything(SimRandom& dice);
  bool crash_or_restart_manager(SimRandom& dice);
  bool cut_manager(SimRandom& dice);
  bool drain(SimRandom& dice);
  bool add_server();
  Finding roll_back(SimRandom& dice);

  /// Ends all faults, and finds whatever does not become well again.
  Finding settle();
  void client_crashed();
  void end_faults();
  void mend_network();
  Finding wait_until(const std::function<Status()>& ok, Violation otherwise);
  Status well();
  /// Operations of clients that have not ended.
  size_t under_way() const { return files_.under_way() + appenders_.under_way() + trees_.under_way(); }
  Finding take_finding();

  size_t any_server(SimRandom& dice) { return dice.below(cluster_.chunkservers()); }
  void take_line(std::string_view line);

  const Schedule schedule_;
  Coverage coverage_;
  std::deque<std::string> lines_;
  SimulatedCluster cluster_;
  Inspector inspector_;
  FileOperations files_;
  Appenders appenders_;
  KeptTrees trees_;
  std::set<size_t> absent_;  ///< servers that were not added yet
  DiskFaults disks_;
  std::map<size_t, ServerId> drained_;  ///< in this round, whether or not it was taken back
  std::shared_ptr<size_t> asking_ = std::make_shared<size_t>(0);  ///< drains that the present client asks for
  std::optional<MemoryStoreDisk::Copy> older_metadata_;
  bool rolled_back_ = false;
  bool ended_early_ = false;  ///< within a round: faults may still be about
};

}  // namespace kintsugi::simulation
