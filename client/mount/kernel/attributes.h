/// What is told and changed of an inode.
#pragma once

#include <cstdint>
#include <optional>

#include "client/mount/kernel/caller.h"

namespace kintsugi::mount {

/// What stat(2) shows. Times are nanoseconds since 1970.
struct Attributes {
  uint64_t inode = 0;
  uint64_t size_bytes = 0;
  uint64_t blocks = 0;  ///< of 512 bytes, that are allocated
  int64_t accessed_ns = 0;
  int64_t modified_ns = 0;
  int64_t changed_ns = 0;
  uint32_t mode = 0;  ///< with the type of the file (S_IFMT)
  uint32_t links = 1;
  uint32_t uid = 0;
  uint32_t gid = 0;
  uint32_t device = 0;  ///< of a device file (st_rdev, as in new_encode_dev)
  uint32_t block_bytes = 4096;
};

struct AttributesAnswer {
  Attributes attributes;
  Lifetime valid{0};
};

/// A name's meaning. node 0 with a lifetime tells the kernel that the name does not exist; without a lifetime it
/// is the same as kNotFound.
struct Entry {
  NodeId node = 0;
  Attributes attributes;
  Lifetime entry_valid{0};
  Lifetime attributes_valid{0};
};

/// The time to set: `now` is the server's choice of the present.
struct TimeChange {
  bool now = false;
  int64_t ns = 0;  ///< unless now
};

/// Only what has a value changes.
struct AttributeChanges {
  std::optional<uint32_t> mode;  ///< permission bits and S_IFMT
  std::optional<uint32_t> uid;
  std::optional<uint32_t> gid;
  std::optional<uint64_t> size_bytes;
  std::optional<TimeChange> accessed;
  std::optional<TimeChange> modified;
  std::optional<Handle> handle;  ///< ftruncate: opened for writing, so the mode is not asked again
  /// Clear set-user-ID, and set-group-ID if the group may execute: the caller has no CAP_FSETID.
  bool kill_setid = false;
};

/// A node to be made. `mode` is what the application gave, with S_IFMT; `umask` applies unless the parent has a default
/// access list.
struct NewNode {
  uint32_t mode = 0;
  uint32_t umask = 0;
  uint32_t device = 0;  ///< for S_IFCHR and S_IFBLK
};

}  // namespace kintsugi::mount
