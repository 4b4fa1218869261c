/// How a request is followed into the processes that it reaches, for whoever traces this one (tracing/agent).
///
/// A process that is to follow a call hears of it before the call comes: a request of Method::kTrace names the connection and
/// the number of the call, which both ends know. Whoever sent it waits for the answer, so connections that were there before,
/// and what is under way on them already, need nothing else. What a server does for such a call has a context that says so, and
/// calls that are made with it are followed in turn. The trace ids of frames are not used.
///
/// Several may have requests followed at a time, and the same request, too: a context has a bit for each of them, which means
/// something only to the Follower of this process.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

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
  std::string request;
  uint64_t owner = 0;  ///< owner of the recording for which it is asked
};

/// Any thread may call; no call waits for anything.
class Follower {
 public:
  virtual ~Follower() = default;
  /// A request has come. Returns for whom it is followed: Context::followed.
  virtual uint32_t follows(const CallName& call) = 0;
  /// Returns for whom calls are followed that this process makes on its own account, as a command or a mount does.
  virtual uint32_t follows_own_work() = 0;
  /// A call will be sent for a request that is `followed`: one announcement for each who wants it.
  virtual std::vector<Announcement> announcements(const std::string& peer, const CallName& call,
                                                  uint32_t followed) = 0;
  /// The peer answered what it was asked for this owner, or did not. The recording may have ended meanwhile. Nothing is said of those
  /// owners for whom it was not asked, because time was over or the connection broke before.
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
  if (Follower* const traces = follower()) context.followed |= traces->follows_own_work();
  return context;
}

}  // namespace kintsugi::rpc
