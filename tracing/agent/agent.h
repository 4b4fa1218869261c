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
#include "tracing/agent/start_event.h"

namespace kintsugi::tracing {

struct AttachOptions {
  SessionOptions session;
  /// The code is given back after this time, whatever became of who asked for it.
  Duration limit = std::chrono::seconds(10);
  static constexpr Duration kMostTime = std::chrono::hours(24);
  /// All functions are recorded once this has happened; none: `session.start` says what begins.
  std::optional<StartEvent> event = {};
  /// The recording ends so long after it began, if that is earlier.
  std::optional<Duration> recorded_for = {};
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
  std::string began;          ///< what began the recording, or why nothing has
  int64_t began_unix_ms = 0;  ///< when; 0: it has not begun
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
  /// Returns once the event has happened. False: the recording is to end before.
  bool wait_for_event(const StartEvent& event);
  void record(Session& session, const AttachOptions& options);
  End wait_for_end(Session& session);
  /// False: it was asked to end meanwhile.
  bool look_later();
  void begin(std::string why);
  void tell(Phase phase, Status failure = {});
  void tell_counts(const Session& session);
  bool is_busy() const { return status_.phase >= Phase::kPreparing && status_.phase <= Phase::kRecording; }

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  AgentStatus status_;
  std::chrono::steady_clock::time_point deadline_;
  std::optional<Duration> recorded_for_;
  bool wanted_ = false;  ///< the recording is to continue
  std::thread thread_;
};

}  // namespace kintsugi::tracing
