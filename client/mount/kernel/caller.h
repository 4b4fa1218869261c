/// The caller of an operation, and the types that name inodes and handles.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "common/runtime/clock.h"
#include "common/runtime/context.h"

namespace kintsugi::mount {

/// An inode, as long as the file system exists: node ids are inode numbers, so that no table is lost when a mount's
/// process is replaced. 0 is no node.
using NodeId = uint64_t;
inline constexpr NodeId kRootNode = 1;

/// An open file or directory. The file system chooses it; the kernel gives it back with each operation. It must mean
/// the same to the process that replaces this one.
using Handle = uint64_t;

/// The owner of a lock: an opaque number of the kernel.
using LockOwner = uint64_t;

/// How long the kernel may believe an answer without asking again. 0: not at all.
using Lifetime = std::chrono::nanoseconds;

/// A signal that came for the application while its request was under way.
///
/// A lock that waits must end soon after with kInterrupted (or with success, if it was granted first: whoever answers
/// first wins). Every other operation may ignore it: a second after the application was killed the connection answers
/// EINTR by itself, and drops what the operation returns later.
class Interrupt {
 public:
  bool requested() const { return requested_; }
  /// The application has been told EINTR and will never hear the answer. Whoever took a lock for it undoes that.
  bool abandoned() const { return abandoned_; }

  /// Only the connection calls these two.
  void request() { requested_ = true; }
  void abandon() { abandoned_ = true; }

 private:
  bool requested_ = false;
  bool abandoned_ = false;
};

/// The caller of an operation. It lives until the operation's coroutine has returned, whether its answer was still
/// wanted or not.
struct Caller {
  Context context;  ///< The operation is a task of its own; this is its context.
  uint32_t uid = 0;
  uint32_t gid = 0;
  TimePoint asked;  ///< The request was read then.
  /// It names the thread. 0: the kernel acts by itself, or for another pid namespace.
  uint32_t pid = 0;
  /// Names the request, also over a restart of this process: never 0, and unique while it is unanswered.
  uint64_t unique = 0;
  /// The process before this one got the request too and died before it answered: what it asks may be done already.
  bool resent = false;
  /// For what creates a node: the caller also is in this group, which is the parent directory's (kernels ≥ 6.4).
  std::optional<uint32_t> supplementary_group;
  Interrupt* interrupt = nullptr;  ///< It is never null in an operation.
};

}  // namespace kintsugi::mount
