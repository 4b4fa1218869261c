/// How a request is followed into the processes that it reaches, for whoever traces this one (tracing/agent).
///
/// A process that is to follow a call hears of it before the call comes: a request of Method::kTrace names the connection and the number
/// of the call, which both ends know. Whoever sent it waits for the answer, so connections that were there before, and what is under way
/// on them already, need nothing else. What a server does for such a call has a context that says so, and calls that are made with it
/// are followed in turn. The trace ids of frames are not used.
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

/// Any thread may call; no call waits for anything.
class Follower {
 public:
  virtual ~Follower() = default;
  /// A request has come. True: it is followed.
  virtual bool follows(const CallName& call) = 0;
  /// Returns whether the calls that this process makes on its own account are followed, as those of a command and of a mount are.
  virtual bool follows_own_work() = 0;
  /// A call will be sent for a request that is followed. What the peer is to be asked before it (Method::kTrace); empty: nothing.
  virtual std::string announcement(const std::string& peer, const CallName& call) = 0;
  /// The peer answered that, or did not.
  virtual void announced(const std::string& peer, const Status& answer) = 0;
};

inline std::atomic<Follower*> the_follower{nullptr};

/// Whoever traces this process; null: nobody does.
inline Follower* follower() {
  return the_follower.load(std::memory_order_acquire);
}
/// REQUIRES: it lives as long as the process.
inline void set_follower(Follower* follower) {
  the_follower.store(follower, std::memory_order_release);
}

/// Work for a request that is followed has this bit in the connection of its context, whatever coroutine it gets to.
inline constexpr uint64_t kFollowedRequest = uint64_t{1} << 63;

inline bool is_followed(const Context& context) {
  return (context.connection & kFollowedRequest) != 0;
}
/// The context of work that this process begins on its own account: it is followed if whoever traces the process wants that.
inline Context own_work(Context context) {
  if (Follower* const traces = follower(); traces != nullptr && traces->follows_own_work())
    context.connection |= kFollowedRequest;
  return context;
}
/// The number of a peer is in the numbers of its connections from this bit on.
inline constexpr int kPeerNumberShift = 40;
/// Whose request it is, as Peer::number() has it; 0: it is no request.
inline uint64_t peer_of(const Context& context) {
  return (context.connection & ~kFollowedRequest) >> kPeerNumberShift;
}
/// The connection on which the request arrived, as Server::on_connection_ended has it.
inline uint64_t connection_of(const Context& context) {
  return context.connection & ~kFollowedRequest;
}

}  // namespace kintsugi::rpc
