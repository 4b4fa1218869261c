/// What is asked of open files, and answered.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include <boost/container/small_vector.hpp>

#include "client/mount/kernel/attributes.h"

namespace kintsugi::mount {

struct OpenFlags {
  /// They are those of open(2): O_ACCMODE, O_APPEND, O_DIRECT and so on. With O_TRUNC the file is emptied by the
  /// operation.
  int flags = 0;
  bool kill_setid = false;  ///< It goes with O_TRUNC, and means what it means in AttributeChanges.
};

/// How the kernel shall treat an open file or directory.
struct OpenAnswer {
  Handle handle = 0;
  bool direct_io = false;   ///< Reads and writes go past the page cache.
  bool keep_cache = false;  ///< What the page cache has of the inode is still right.
  /// Several direct writes of the file come at once, unless they grow it.
  bool parallel_direct_writes = false;
};

struct CreateAnswer {
  Entry entry;
  OpenAnswer open;
};

struct ReadRequest {
  Handle handle = 0;
  uint64_t offset = 0;
  uint32_t bytes = 0;  ///< They are at most Negotiated::max_read_bytes.
};

/// Bytes that were read, where they lie: they go to the kernel from there, without a copy.
struct ReadAnswer {
  /// At most kMaxReadRanges, together at most what was asked; less means the end of the file.
  boost::container::small_vector<std::span<const std::byte>, 4> ranges;
  std::shared_ptr<const void> owner;  ///< It keeps the ranges in place until they were written.
};
inline constexpr size_t kMaxReadRanges = 512;

struct WriteRequest {
  Handle handle = 0;
  uint64_t offset = 0;
  std::span<const std::byte> data;  ///< They are valid until write() returns.
  /// The open file has them: O_APPEND (the kernel's offset may be old then), O_DIRECT, O_DSYNC, O_SYNC.
  int flags = 0;
  /// The bytes come from a mapping: the handle is a guess, and the caller is not who wrote them.
  bool from_page_cache = false;
  bool kill_setid = false;  ///< It means what it means in AttributeChanges.
};

struct ReleaseRequest {
  Handle handle = 0;
  LockOwner lock_owner = 0;
  bool unlock_flock = false;  ///< The flock(2) lock of `lock_owner` ends.
};

enum class SeekTo { kData, kHole };

struct CopyRange {
  NodeId from = 0;
  Handle from_handle = 0;
  uint64_t from_offset = 0;
  NodeId to = 0;
  Handle to_handle = 0;
  uint64_t to_offset = 0;
  uint64_t bytes = 0;
};

}  // namespace kintsugi::mount
