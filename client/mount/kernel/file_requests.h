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
  int flags = 0;            ///< open(2): O_ACCMODE, O_TRUNC (also to be done here), O_APPEND, O_DIRECT, ...
  bool kill_setid = false;  ///< with O_TRUNC, see AttributeChanges
};

/// How the kernel shall treat an open file or directory.
struct OpenAnswer {
  Handle handle = 0;
  bool direct_io = false;               ///< past the page cache
  bool keep_cache = false;              ///< what the page cache has of the inode is still right
  bool parallel_direct_writes = false;  ///< several direct writes of one file at once (that do not grow it)
};

struct CreateAnswer {
  Entry entry;
  OpenAnswer open;
};

struct ReadRequest {
  Handle handle = 0;
  uint64_t offset = 0;
  uint32_t bytes = 0;  ///< at most the negotiated maximum (1 MiB)
};

/// Bytes to be read, where they lie: they go to the kernel from there, without a copy.
struct ReadAnswer {
  /// At most kMaxReadRanges, together at most what was asked; less means the end of the file.
  boost::container::small_vector<std::span<const std::byte>, 4> ranges;
  std::shared_ptr<const void> owner;  ///< keeps the ranges in place until they were written
};
inline constexpr size_t kMaxReadRanges = 512;

struct WriteRequest {
  Handle handle = 0;
  uint64_t offset = 0;
  std::span<const std::byte> data;  ///< valid until write() returns
  int flags = 0;  ///< of the open file: O_APPEND (the kernel's offset may be old), O_DIRECT, O_DSYNC, O_SYNC
  bool from_page_cache = false;  ///< from a mapping: the handle is a guess, and the caller is not who wrote
  bool kill_setid = false;
};

struct ReleaseRequest {
  Handle handle = 0;
  LockOwner lock_owner = 0;
  bool unlock_flock = false;  ///< the flock(2) lock of `lock_owner` ends
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
