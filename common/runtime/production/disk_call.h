/// One system call on a file, as data: the io_uring queue turns it into a submission, and runs it in place on
/// machines that forbid io_uring (many containers do).
#pragma once

#include <cstddef>
#include <cstdint>

#include <liburing.h>
#include <sys/stat.h>

namespace kintsugi::runtime {

struct DiskCall {
  enum class Kind : uint8_t {
    kRead,
    kWrite,
    kSyncData,
    kSync,
    kAllocate,
    kOpen,
    kClose,
    kRename,
    kUnlink,
    kStat,
  };

  Kind kind;
  int fd = -1;
  std::byte* data = nullptr;      ///< for kRead and kWrite; kWrite only reads it
  uint32_t bytes = 0;             ///< for kRead and kWrite
  uint64_t offset = 0;            ///< for kRead and kWrite; the size for kAllocate
  const char* path = nullptr;     ///< for kOpen, kRename (from), kUnlink and kStat
  const char* to_path = nullptr;  ///< for kRename
  int flags = 0;                  ///< for kOpen; AT_REMOVEDIR or 0 for kUnlink
  struct statx* found = nullptr;  ///< for kStat, which writes it
};

/// Describes the call to the kernel.
void prepare(io_uring_sqe* sqe, const DiskCall& call);

/// Makes the call here and now; returns its result, or -errno.
int run_blocking(const DiskCall& call);

}  // namespace kintsugi::runtime
