#include "client/lib/files/open_flags.h"

#include <fcntl.h>

#include "common/proto/agreed_numbers.h"

namespace kintsugi::client {

bool changes_file(int flags) {
  return (flags & O_ACCMODE) != O_RDONLY || (flags & O_TRUNC) != 0;
}

Status check_may_open(uint64_t inode, int flags) {
  if (changes_file(flags) && (inode & proto::kSnapshotBit) != 0) return {Code::kReadOnly, "is in a snapshot"};
  return {};
}

}  // namespace kintsugi::client
