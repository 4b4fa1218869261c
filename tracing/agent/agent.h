/// The dormant part of every daemon that traces it when it is asked to: one thread, which lives only meanwhile.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "common/base/status.h"
#include "common/runtime/clock.h"
#include "tracing/agent/agent_status.h"
#include "tracing/agent/following.h"
#include "tracing/agent/owners.h"
#include "tracing/agent/session.h"
#include "tracing/agent/start_event.h"

namespace kintsugi::tracing {

struct AttachOptions {
  SessionOptions session;
  /// Who asks: a number that nobody else has; 0: nobody in particular.
  uint64_t owner = 0;
  /// The code is given back after this time, whatever became of who asked for it.
  Duration limit = std::chrono::seconds(10);
  static constexpr Duration kMostTime = std::chrono::hours(24);
  /// All functions are recorded once this has happened; none: `session.start` says what begins.
  std::optional<StartEvent> event = {};
  /// The recording ends so long after it began, if that is earlier.
  std::optional<Duration> recorded_for = {};
  /// Requests are followed into other processes on these terms, whose deadline is filled in. REQUIRES: there is an owner.
  std::optional<FollowTerms> follow = {};

  Status check() const;  ///< kInvalidArgument
};

/// Any thread may call; no call waits for anything.
class Agent {
 public:
  static Agent& of_process();

  /// Has a recording begin; status() tells how that goes. Owners who want all functions recorded share one recording, with
  /// the memory of the first of them; one that the owner has already stays. kConflict: the owner's has ended. kAlreadyExists:
  /// there is one that cannot be shared. kLimitExceeded: too many share it. kUnavailable: it, or one of those who share it, is
  /// about to end; ask again. kInvalidArgument.
  Status attach(AttachOptions options);
  /// Has the owner's recording end, with 0 everybody's, who are told that somebody else ended it. Others' go on. kNotFound: there
  /// is none.
  Status detach(uint64_t owner = 0);
  /// Of the owner's recording; of the process's, if there is no such owner.
  AgentStatus status(uint64_t owner = 0) const;
  /// Bytes of the owner's trace, with 0 of the one that ended last, from `offset` on. kNotFound: nothing was recorded, or the owner
  /// is forgotten. kConflict: it has not ended.
  Result<std::string> read(uint64_t owner, uint64_t offset, size_t most_bytes) const;

 private:
  Agent() = default;
  Status join(const AttachOptions& options);
  Status start(AttachOptions options);
  void run(const AttachOptions& options);
  /// Returns once the event has happened. False: the recording is to end before.
  bool wait_for_event(const StartEvent& event);
  void record(Session& session);
  End wait_for_end(Session& session);
  /// Gives those who leave what was recorded so far. Returns why the recording ends; nothing: somebody stays.
  std::optional<End> let_leave(const Session& session);
  /// Who leaves next. When nobody stays, nobody joins any more.
  std::optional<Owners::Departure> next_to_leave();
  /// Returns a little later, or when somebody leaves.
  void look_later();
  void begin(std::string why);
  void tell(Phase phase);
  void tell_counts(const Session& session);
  /// Nobody joins any more, and nothing is followed.
  void close_to_all();
  /// The recording is over, for all who are there.
  void finish(Phase phase, const Status& failure = {}, End end = End::kNone);

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  AgentStatus status_;  ///< the state of the process's recording
  Owners owners_;
  AttachOptions first_;  ///< what the recording was begun with
  bool ends_ = false;    ///< nobody joins it any more
  std::thread thread_;
};

}  // namespace kintsugi::tracing
