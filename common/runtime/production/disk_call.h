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
  std::byte* data = nullptr;      ///< kRead and kWrite: the buffer; kWrite only reads it
  uint32_t bytes = 0;             ///< kRead and kWrite: number of bytes
  uint64_t offset = 0;            ///< kRead and kWrite: file offset; kAllocate: the size
  const char* path = nullptr;     ///< kOpen, kUnlink and kStat: the path; kRename: the old path
  const char* to_path = nullptr;  ///< kRename: the new path
  int flags = 0;                  ///< kOpen: open(2) flags; kUnlink: AT_REMOVEDIR or 0
  struct statx* found = nullptr;  ///< kStat: where the result is written
};

/// Describes the call to the kernel.
void prepare(io_uring_sqe* sqe, const DiskCall& call);

/// Makes the call here and now; returns its result, or -errno.
int run_blocking(const DiskCall& call);

}  // namespace kintsugi::runtime
