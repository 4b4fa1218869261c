/// Attributes of inodes: how the kernel is told them, and how it has them changed.
#pragma once

#include <cstdint>
#include <optional>

#include "client/mount/kernel/caller.h"

namespace kintsugi::mount {

/// What stat(2) shows. Times are nanoseconds since 1970.
struct Attributes {
  uint64_t inode = 0;
  uint64_t size_bytes = 0;
  uint64_t blocks = 0;  ///< A block has 512 bytes here.
  int64_t accessed_ns = 0;
  int64_t modified_ns = 0;
  int64_t changed_ns = 0;
  uint32_t mode = 0;  ///< The type of the file stands in it, too (S_IFMT).
  uint32_t links = 1;
  uint32_t uid = 0;
  uint32_t gid = 0;
  uint32_t device = 0;  ///< Device files have one (st_rdev, encoded as by new_encode_dev).
  uint32_t block_bytes = 4096;
};

struct AttributesAnswer {
  Attributes attributes;
  Lifetime valid{0};
};

/// The inode that a name means. Node 0 with a lifetime tells the kernel that the name does not exist; without a
/// lifetime it is the same as kNotFound.
struct Entry {
  NodeId node = 0;
  Attributes attributes;
  Lifetime entry_valid{0};
  Lifetime attributes_valid{0};
};

/// A time that is set: to the present, which the server chooses, or to `ns`.
struct TimeChange {
  bool now = false;
  int64_t ns = 0;
};

/// Only what has a value changes.
struct AttributeChanges {
  std::optional<uint32_t> mode;  ///< It has permission bits and S_IFMT.
  std::optional<uint32_t> uid;
  std::optional<uint32_t> gid;
  std::optional<uint64_t> size_bytes;
  std::optional<TimeChange> accessed;
  std::optional<TimeChange> modified;
  /// ftruncate(2) gives one. The file was opened for writing, so the mode is not asked again.
  std::optional<Handle> handle;
  /// The caller has no CAP_FSETID: set-user-ID is cleared, and so is set-group-ID if the group may execute.
  bool kill_setid = false;
};

/// An inode to be made. `mode` is what the application gave, with S_IFMT; `umask` applies unless the parent has a
/// default access list.
struct NewNode {
  uint32_t mode = 0;
  uint32_t umask = 0;
  uint32_t device = 0;  ///< S_IFCHR and S_IFBLK have one.
};

}  // namespace kintsugi::mount
