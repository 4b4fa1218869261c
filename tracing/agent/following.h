/// Has requests followed into the processes that they reach, while this one is traced (common/rpc/follower.h).
#pragma once

#include <chrono>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/rpc/follower.h"
#include "tracing/repository/recorded_arguments.h"

namespace kintsugi::tracing {

/// Which requests, and what the next process is told.
struct FollowTerms {
  uint64_t owner = 0;       ///< who had the first process attached to; 0: nothing is followed
  uint32_t hops = 0;        ///< processes further
  bool everything = false;  ///< every request that comes is followed
  bool own_work = false;    ///< what this process asks for on its own account is
  /// Requests of this method are; others only when somebody says that they come (expect).
  std::optional<rpc::Method> method;
  uint64_t bytes = 0;  ///< memory of a trace
  bool circular = false;
  std::vector<RecordedValues> recorded;
  std::chrono::steady_clock::time_point deadline;
};

class Following final : public rpc::Follower {
 public:
  /// Calls that were announced and have not come, and peers that are remembered.
  static constexpr size_t kMostExpected = 4096, kMostPeers = 1024;

  static Following& of_process();

  /// A recording begins, of whose requests these are followed.
  void begin(const FollowTerms& terms);
  /// The recording ends. What is known of its owner and peers stays until the next begin().
  void end();
  /// This call comes next and is followed. kConflict: nothing is recorded. kLimitExceeded.
  Status expect(uint64_t connection, uint64_t call);

  uint64_t owner() const;
  /// Requests that came, or that this process began on its own account, and are followed.
  uint64_t requests() const;
  /// Peers that were asked to follow a call: their addresses, and what came of it.
  std::vector<std::pair<std::string, Status>> peers() const;

  bool follows(const rpc::CallName& call) override;
  bool follows_own_work() override;
  rpc::Announcement announcement(const std::string& peer, const rpc::CallName& call) override;
  void announced(const std::string& peer, uint64_t owner, const Status& answer) override;

 private:
  mutable std::mutex mutex_;
  bool active_ = false;
  FollowTerms terms_;
  uint64_t requests_ = 0;
  std::set<std::pair<uint64_t, uint64_t>> expected_;  ///< connection, call
  std::map<std::string, Status> peers_;
};

}  // namespace kintsugi::tracing
