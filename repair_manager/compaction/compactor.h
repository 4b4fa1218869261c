/// Writes files anew whose bytes lie badly: in many small extents, as random writes leave them, or in stripes most of
/// which nobody names any more.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include <boost/asio/awaitable.hpp>

#include "client/lib/resources.h"
#include "common/base/ids.h"
#include "common/base/status.h"
#include "common/runtime/task_group.h"
#include "repair_manager/compaction/compaction_window.h"

namespace kintsugi::repair_manager {

/// What a compactor asks of the repair manager that it is a part of.
class CompactionHost {
 public:
  virtual ~CompactionHost() = default;
  /// The file is this manager's.
  virtual bool may_compact(InodeId inode) const = 0;
  /// Chunks wait for their repair, or are being repaired: they go first.
  virtual bool repairs_first() const = 0;
  /// Bytes a second that may be written anew; 0: no limit.
  virtual uint64_t compaction_bandwidth() const = 0;
};

struct CompactionCounts {
  size_t waiting = 0;   ///< files, with the one that is looked at
  uint64_t files = 0;   ///< files that were gone through to the end
  uint64_t failed = 0;  ///< files whose compaction was given up
  uint64_t bytes = 0;   ///< bytes that were written anew
  uint64_t lost = 0;    ///< windows whose new place came too late: somebody else changed the file
};

/// Compacts one file at a time, window by window. The bytes are read from stripes, which never change, and the
/// metaserver takes the new extents only if the file still has exactly those that were read: whoever writes meanwhile
/// wins. It takes no lease, so neither times nor what clients know of the file change. Between two windows it rests;
/// repairs go first.
///
/// Keeps nothing durable: what is not done when this process ends is found again by the metaserver.
/// Memory: one window, and kMemoryBytes of buffers while it works.
class Compactor {
 public:
  static constexpr size_t kMaxWaiting = 64;  ///< files that wait at most
  /// A window has at most so many, or one row of the policy.
  static constexpr uint64_t kWindowBytes = 6 << 20;
  static constexpr uint64_t kMaxWindowBytes = 64 << 20;  ///< the limit holds also where a row is more
  static constexpr size_t kMaxExtents = 4'096;           ///< the limit for a window
  static constexpr size_t kMemoryBytes = client::kMinMemoryBytes;
  static constexpr int kRest = 3;  ///< times what the last window took
  static constexpr Duration kShortestRest = std::chrono::milliseconds(1),
                            kLongestRest = std::chrono::seconds(2);
  /// A window waits so long for repairs: those that cannot be done must not keep it for ever.
  static constexpr Duration kLongestYield = std::chrono::minutes(1);
  /// Interval at which it looks whether there are repairs still.
  static constexpr Duration kLook = std::chrono::milliseconds(100);

  /// `host` and what `runtime` names outlive it. `options.memory_bytes` is set here.
  Compactor(const runtime::Runtime& runtime, client::Options options, const rpc::Secret& secret,
            CompactionHost& host);

  /// How many more files it would take.
  uint32_t room() const { return static_cast<uint32_t>(kMaxWaiting - waiting_.size()); }
  /// The file is to be compacted, in the background. Without room() it is left out. Not to be called once it stops.
  void want(InodeId inode);
  /// Returns when nothing runs any more. What was written and has no place in a file yet is given up.
  asio::awaitable<void> stop();

  CompactionCounts counts() const;
  /// Gives back the memory of buffers that were not used since the last call. To be called now and then.
  void give_memory_back() { resources_.memory.give_back_idle(); }

 private:
  asio::awaitable<void> run();
  asio::awaitable<Status> compact(InodeId inode);
  asio::awaitable<Result<proto::Attributes>> look_at(InodeId inode);
  /// Looks at the part of the file from `begin` to `end`, and writes anew what lies badly in it. Returns where to go
  /// on.
  asio::awaitable<Result<uint64_t>> improve(InodeId inode, uint64_t begin, uint64_t end);
  /// Waits while there are repairs. False: the compaction of the file has to end.
  asio::awaitable<bool> let_repairs_go_first(InodeId inode);
  /// After a window that took so long, of which so many bytes were written anew. False: it stops.
  asio::awaitable<bool> rest(Duration took, uint64_t bytes);
  /// What the metaserver has stored of the file from `begin` on; length 0: to the end.
  asio::awaitable<Result<proto::OpenReadResponse>> ask(Context context, InodeId inode, uint64_t begin,
                                                       uint64_t length);
  /// The extents that touch [begin, end), clipped to it; the first kMaxExtents of them.
  asio::awaitable<Result<CompactionWindow>> locate(Context context, InodeId inode, uint64_t begin,
                                                   uint64_t end);
  asio::awaitable<Result<std::vector<std::byte>>> read(Context context, const CompactionWindow& window);
  /// `moved` are those extents of the window whose bytes are written anew.
  asio::awaitable<Status> move(Context context, InodeId inode, const CompactionWindow& window,
                               const CompactionWindow& moved);

  client::Resources resources_;
  CompactionHost& host_;
  std::deque<InodeId> waiting_;
  bool running_ = false;
  CompactionCounts counts_;
  runtime::TaskGroup tasks_;
};

}  // namespace kintsugi::repair_manager
