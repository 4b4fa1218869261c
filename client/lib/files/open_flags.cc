#include "client/lib/files/open_flags.h"

#include <fcntl.h>

namespace kintsugi::client {
namespace {

/// The metaserver sets this bit in ids of inodes in snapshots.
constexpr uint64_t kSnapshotBit = uint64_t{1} << 63;

}  // namespace

bool changes_file(int flags) {
  return (flags & O_ACCMODE) != O_RDONLY || (flags & O_TRUNC) != 0;
}

Status check_may_open(uint64_t inode, int flags) {
  if (changes_file(flags) && (inode & kSnapshotBit) != 0) return {Code::kReadOnly, "is in a snapshot"};
  return {};
}

}  // namespace kintsugi::client
