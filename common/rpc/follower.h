/// How a request is followed into the processes that it reaches, for whoever traces this one (tracing/agent).
///
/// A process that is to follow a call hears of it before the call comes: a request of Method::kTrace names the connection and
/// the number of the call, which both ends know. Whoever sent it waits for the answer, so connections that were there before,
/// and what is under way on them already, need nothing else. What a server does for such a call has a context that says so, and
/// calls that are made with it are followed in turn. The trace ids of frames are not used.
#pragma once

#include <atomic>
#include <string>

#include "common/base/status.h"
#include "common/rpc/method.h"
#include "common/runtime/context.h"

namespace kintsugi::rpc {

/// A call as both of its ends know it.
struct CallName {
  uint64_t connection = 0;  ///< FrameMarks::connection()
  uint64_t call = 0;        ///< the id of its request
  Method method{};
};

/// What a peer is to be asked (Method::kTrace) before a call is sent to it.
struct Announcement {
  std::string request;  ///< empty: nothing
  uint64_t owner = 0;   ///< owner of the recording for which it is asked
};

/// Any thread may call; no call waits for anything.
class Follower {
 public:
  virtual ~Follower() = default;
  /// A request has come. True: it is followed.
  virtual bool follows(const CallName& call) = 0;
  /// Returns whether the calls that this process makes on its own account are followed, as those of a command or a mount are.
  virtual bool follows_own_work() = 0;
  /// A call will be sent for a request that is followed.
  virtual Announcement announcement(const std::string& peer, const CallName& call) = 0;
  /// The peer answered what it was asked for this owner, or did not. The recording may have ended meanwhile.
  virtual void announced(const std::string& peer, uint64_t owner, const Status& answer) = 0;
};

inline std::atomic<Follower*> the_follower{nullptr};

/// Whoever has requests followed; null: nobody does. Then it costs a relaxed load, for every request asks.
inline Follower* follower() {
  if (the_follower.load(std::memory_order_relaxed) == nullptr) return nullptr;
  return the_follower.load(std::memory_order_acquire);
}
/// REQUIRES: it lives as long as the process.
inline void set_follower(Follower* follower) {
  the_follower.store(follower, std::memory_order_release);
}

/// The context of work that this process begins on its own account: it is followed if whoever traces the process wants that.
inline Context own_work(Context context) {
  if (Follower* const traces = follower(); traces != nullptr && traces->follows_own_work())
    context.followed = true;
  return context;
}

}  // namespace kintsugi::rpc
