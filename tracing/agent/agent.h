/// The dormant part of every daemon that traces it when it is asked to: one thread, which lives only meanwhile.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "common/base/status.h"
#include "common/runtime/clock.h"
#include "tracing/agent/following.h"
#include "tracing/agent/session.h"

namespace kintsugi::tracing {

struct AttachOptions {
  SessionOptions session;
  /// The code is given back after this time, whatever became of who asked for it.
  Duration limit = std::chrono::seconds(10);
  static constexpr Duration kMostTime = std::chrono::hours(24);
  /// Requests are followed into other processes on these terms; its deadline is filled in.
  std::optional<FollowTerms> follow = {};
};

enum class Phase {
  kIdle,       ///< nothing was traced yet
  kPreparing,  ///< the binary is looked through, memory is made
  kWaiting,    ///< waits for the start event
  kRecording,
  kEnded,   ///< the trace is there
  kFailed,  ///< `failure` says why
};

struct AgentStatus {
  Phase phase = Phase::kIdle;
  std::string path;  ///< file of the trace
  Status failure;
  Duration left{};  ///< until the code is given back
  uint32_t functions = 0, patched = 0, met = 0;
};

/// Any thread may call; no call waits for anything.
class Agent {
 public:
  static Agent& of_process();

  /// Has a recording begin; status() tells how that goes. If there is one of the same owner, it stays. kConflict: that
  /// has ended. kAlreadyExists: there is another one. kInvalidArgument.
  Status attach(AttachOptions options);
  /// Has the recording end. `owner`: only if it is this one's; 0: whosever it is. kNotFound: there is none.
  Status detach(uint64_t owner = 0);
  AgentStatus status() const;
  /// Bytes of the trace that ended last, from `offset` on. kNotFound, kConflict: it has not ended.
  Result<std::string> read(uint64_t offset, size_t most_bytes) const;

 private:
  Agent() = default;
  void run(AttachOptions options);
  Result<std::unique_ptr<Session>> prepare(const SessionOptions& options);
  End wait_for_end(Session& session, std::chrono::steady_clock::time_point deadline);
  void tell(Phase phase, Status failure = {});
  void tell_counts(const Session& session);
  bool is_busy() const { return status_.phase >= Phase::kPreparing && status_.phase <= Phase::kRecording; }

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  AgentStatus status_;
  std::chrono::steady_clock::time_point deadline_;
  bool wanted_ = false;  ///< the recording is to continue
  std::thread thread_;
};

}  // namespace kintsugi::tracing
