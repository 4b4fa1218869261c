/// Clients that use a simulated cluster while faults are made: puts and gets that are compared, metadata, repairs of chunks that are
/// not lost, reads as if a chunk were lost.
#pragma once

#include <string>

#include "tests/simulation/cluster/simulated_cluster.h"

namespace kintsugi::simulation {

/// What the cluster's clients do, one after the other and again: client i does kWorks[i % kWorks]. REQUIRES: destroyed before the cluster.
class Load {
 public:
  explicit Load(SimulatedCluster& cluster);
  /// Waits until everybody has ended; operations that hang must be let go before.
  ~Load();
  Load(const Load&) = delete;

  /// Puts the file that is repaired and read, and begins. REQUIRES: the cluster was started.
  Status start();

  uint64_t done() const { return done_; }      ///< rounds
  uint64_t failed() const { return failed_; }  ///< what a fault does to a client is no matter here
  /// The longest that a round took, or has taken so far, of those that ended since then.
  Duration longest_since(TimePoint then) const;
  const std::vector<std::string>& wrong() const { return wrong_; }  ///< bytes that were not those of the file

 private:
  static constexpr uint64_t kFileBytes = 7'000'000, kSmallBytes = 3000;

  using Work = asio::awaitable<Status> (Load::*)(size_t client);
  asio::awaitable<void> repeat(size_t client, Work work, Duration pause);
  asio::awaitable<Status> transfer(size_t client);
  asio::awaitable<Status> metadata(size_t client);
  asio::awaitable<Status> repair(size_t client);
  asio::awaitable<Status> read_lost(size_t client);
  asio::awaitable<Status> ended(SimulatedCluster::OperationPtr operation);

  SimulatedCluster& cluster_;
  SimRandom random_;
  runtime::TaskGroup tasks_;
  std::vector<uint64_t> stripes_;
  /// Of one client: when its round began, and the rounds that were long.
  struct Rounds {
    std::optional<TimePoint> began;
    std::vector<std::pair<TimePoint, Duration>> ended;
  };
  std::vector<Rounds> rounds_;
  uint64_t done_ = 0, failed_ = 0;
  std::vector<std::string> wrong_;
};

}  // namespace kintsugi::simulation
