/// Clients with open files: each appends records to a log of its own, several at once, while others read it and change its mode.
///
/// What must hold: a record whose append and sync returned ok is in the log once and whole, at every read that begins after
/// that; no record is there twice, or without having been written. One that failed may be there, as a whole or in part, or not.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "client/lib/files/open_files.h"
#include "tests/simulation/cluster/simulated_cluster.h"
#include "tests/simulation/runtime/sim_random.h"
#include "tests/simulation/swarm/coverage.h"
#include "tests/simulation/swarm/violation.h"

namespace kintsugi::simulation {

class Appenders {
 public:
  static constexpr size_t kMostUnderWay = 8;
  static constexpr uint64_t kLargestRecord = 900'000;

  Appenders(SimulatedCluster& cluster, Coverage& coverage) : cluster_(cluster), coverage_(coverage) {}

  /// Makes the logs, one for each client but the first. REQUIRES: called once, before any fault.
  Status start();
  /// Ends the sessions of the open files. REQUIRES: nothing is under way and the cluster is well, or the process ends.
  void stop();

  // Each returns false when nothing was begun.
  bool begin_append(SimRandom& dice);
  bool begin_change_mode(SimRandom& dice);
  bool begin_read(SimRandom& dice);

  size_t under_way() const { return under_way_; }
  Finding take_finding() { return std::exchange(finding_, {}); }
  /// Reads every log with no fault about: errors are findings then.
  Finding read_everything();

 private:
  struct Log {
    size_t client = 0;
    std::string path;
    uint64_t inode = 0;
    std::set<uint32_t> begun, acknowledged;  ///< records by number
  };

  bool may_begin() const { return !logs_.empty() && under_way_ < kMostUnderWay; }
  void begin(asio::awaitable<void> operation);
  asio::awaitable<void> append(Log& log, uint32_t record, uint64_t bytes);
  asio::awaitable<void> change_mode(Log& log, client::OpenFiles& files, uint32_t mode);
  asio::awaitable<void> read(Log& log, client::OpenFiles& files, bool must_succeed);
  void judge(const Log& log, const std::set<uint32_t>& expected, std::span<const std::byte> bytes);
  void found(Violation violation, const Log& log, std::string message);
  client::OpenFiles& any_files(SimRandom& dice) { return *files_[dice.below(files_.size())]; }

  SimulatedCluster& cluster_;
  Coverage& coverage_;
  std::vector<std::unique_ptr<client::OpenFiles>> files_;  ///< of each client but the first
  std::vector<std::unique_ptr<Log>> logs_;                 ///< likewise
  size_t under_way_ = 0;
  uint32_t next_record_ = 1;
  Finding finding_;
};

}  // namespace kintsugi::simulation
