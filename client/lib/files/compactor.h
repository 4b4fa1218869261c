/// Writes files anew whose bytes lie badly: in many small extents, as random writes leave them, or in stripes most of which nobody
/// names any more.
#pragma once

#include <cstdint>
#include <deque>
#include <set>
#include <string>
#include <vector>

#include <boost/asio/awaitable.hpp>

#include "client/lib/leases/inode_calls.h"
#include "client/lib/read/located_extent.h"
#include "client/lib/resources.h"
#include "common/runtime/task_group.h"

namespace kintsugi::client {

/// A part of a file: some rows of its stripes.
struct CompactionWindow {
  std::vector<LocatedExtent> extents;  ///< in file order, clipped to the window
  uint64_t begin() const { return extents.front().offset; }
  uint64_t end() const { return extents.back().end(); }
};

/// Bytes are written anew when they lie in many pieces, or when more than a quarter of what their stripes hold is waste.
bool worth_compacting(const CompactionWindow& window);
/// The metaserver keeps some of the bytes itself.
bool has_inline(const CompactionWindow& window);

/// What a compactor asks of the open files.
class CompactedFiles {
 public:
  virtual ~CompactedFiles() = default;
  /// Counts operations of users: it yields to them.
  virtual uint64_t operations() const = 0;
  /// Bytes of this file lie elsewhere now.
  virtual void moved(uint64_t inode, uint64_t begin, uint64_t end) = 0;
};

/// One file at a time, window by window. The bytes are read from stripes, which never change, and the metaserver takes the new
/// extents only if the file still has exactly those that were read: whoever writes meanwhile wins. Between two windows it rests, and
/// the longer the more others do.
class Compactor {
 public:
  static constexpr size_t kMaxWaiting = 16;          ///< files
  static constexpr uint64_t kWindowBytes = 6 << 20;  ///< at most, or one row
  static constexpr size_t kMaxExtents = 4'096;       ///< of a window
  static constexpr int kRest = 1,
                       kRestBeside = 4;  ///< times what the last window took: alone, and beside others

  /// References outlive it. `tasks` is where it works; when they stop, it ends after a window.
  Compactor(Resources& resources, InodeCalls& calls, CompactedFiles& files, runtime::TaskGroup& tasks,
            Context context)
      : resources_(resources), calls_(calls), files_(files), tasks_(tasks), context_(context) {}

  uint32_t room() const {
    return static_cast<uint32_t>(kMaxWaiting - std::min(kMaxWaiting, waiting_.size()));
  }
  /// These files are to be compacted in the background.
  void want(const std::vector<uint64_t>& inodes);
  /// Compacts one file now; returns how many bytes were written anew. kNotFound, kStale: it is gone.
  asio::awaitable<Result<uint64_t>> compact(uint64_t inode);

 private:
  asio::awaitable<void> run();
  /// The extents that touch [begin, end), clipped to it; the first kMaxExtents of them.
  asio::awaitable<Result<CompactionWindow>> locate(uint64_t inode, uint64_t begin, uint64_t end);
  asio::awaitable<Result<std::vector<std::byte>>> read(const CompactionWindow& window);
  /// `moved` are those extents of the window whose bytes are written anew.
  asio::awaitable<Status> move(uint64_t inode, const CompactionWindow& window, const CompactionWindow& moved);

  Resources& resources_;
  InodeCalls& calls_;
  CompactedFiles& files_;
  runtime::TaskGroup& tasks_;
  const Context context_;
  std::set<uint64_t> waiting_;
  bool running_ = false;
};

}  // namespace kintsugi::client
