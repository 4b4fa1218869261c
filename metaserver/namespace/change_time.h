/// The time of an inode's last change (ctime), by which clients tell which of two answers is the later one.
#pragma once

#include <algorithm>
#include <cstdint>

#include "common/proto/store.pb.h"

namespace kintsugi::metaserver {

/// Notes a change at `at_ns`. The time always grows, also when the wall clock went back or two changes are of one
/// nanosecond.
inline void note_change(proto::StoredInode& inode, int64_t at_ns) {
  inode.set_changed_ns(std::max(inode.changed_ns() + 1, at_ns));
}

}  // namespace kintsugi::metaserver
