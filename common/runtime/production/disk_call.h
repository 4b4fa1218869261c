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
  std::byte* data = nullptr;      ///< buffer of kRead and kWrite, which kWrite only reads
  uint32_t bytes = 0;             ///< length of the buffer
  uint64_t offset = 0;            ///< file offset of kRead and kWrite; size for kAllocate
  const char* path = nullptr;     ///< path of kOpen, kUnlink and kStat; old path of kRename
  const char* to_path = nullptr;  ///< new path of kRename
  int flags = 0;                  ///< open(2) flags of kOpen; AT_REMOVEDIR or 0 for kUnlink
  struct statx* found = nullptr;  ///< where kStat writes its result
};

/// Describes the call to the kernel.
void prepare(io_uring_sqe* sqe, const DiskCall& call);

/// Makes the call here and now; returns its result, or -errno.
int run_blocking(const DiskCall& call);

}  // namespace kintsugi::runtime
