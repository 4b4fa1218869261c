#include "common/runtime/production/disk_call.h"

#include <cerrno>
#include <cstdio>

#include <fcntl.h>
#include <unistd.h>

namespace kintsugi::runtime {

namespace {

constexpr mode_t kFileMode = 0640;
constexpr unsigned kStatFields = STATX_INO | STATX_SIZE;  // the kernel always reports the device as well

}  // namespace

void prepare(io_uring_sqe* sqe, const DiskCall& call) {
  switch (call.kind) {
    case DiskCall::Kind::kRead: io_uring_prep_read(sqe, call.fd, call.data, call.bytes, call.offset); return;
    case DiskCall::Kind::kWrite:
      io_uring_prep_write(sqe, call.fd, call.data, call.bytes, call.offset);
      return;
    case DiskCall::Kind::kSyncData: io_uring_prep_fsync(sqe, call.fd, IORING_FSYNC_DATASYNC); return;
    case DiskCall::Kind::kSync: io_uring_prep_fsync(sqe, call.fd, 0); return;
    case DiskCall::Kind::kAllocate:
      io_uring_prep_fallocate(sqe, call.fd, 0, 0, static_cast<off_t>(call.offset));
      return;
    case DiskCall::Kind::kOpen: io_uring_prep_openat(sqe, AT_FDCWD, call.path, call.flags, kFileMode); return;
    case DiskCall::Kind::kClose: io_uring_prep_close(sqe, call.fd); return;
    case DiskCall::Kind::kRename:
      io_uring_prep_renameat(sqe, AT_FDCWD, call.path, AT_FDCWD, call.to_path, 0);
      return;
    case DiskCall::Kind::kUnlink: io_uring_prep_unlinkat(sqe, AT_FDCWD, call.path, call.flags); return;
    case DiskCall::Kind::kStat:
      io_uring_prep_statx(sqe, AT_FDCWD, call.path, 0, kStatFields, call.found);
      return;
  }
}

int run_blocking(const DiskCall& call) {
  auto offset = static_cast<off_t>(call.offset);
  ssize_t result = -1;
  errno = EINVAL;
  switch (call.kind) {
    case DiskCall::Kind::kRead: result = pread(call.fd, call.data, call.bytes, offset); break;
    case DiskCall::Kind::kWrite: result = pwrite(call.fd, call.data, call.bytes, offset); break;
    case DiskCall::Kind::kSyncData: result = fdatasync(call.fd); break;
    case DiskCall::Kind::kSync: result = fsync(call.fd); break;
    case DiskCall::Kind::kAllocate: result = fallocate(call.fd, 0, 0, offset); break;
    case DiskCall::Kind::kOpen: result = open(call.path, call.flags, kFileMode); break;
    case DiskCall::Kind::kClose: result = close(call.fd); break;
    case DiskCall::Kind::kRename: result = rename(call.path, call.to_path); break;
    case DiskCall::Kind::kUnlink: result = unlinkat(AT_FDCWD, call.path, call.flags); break;
    case DiskCall::Kind::kStat: result = statx(AT_FDCWD, call.path, 0, kStatFields, call.found); break;
  }
  return result < 0 ? -errno : static_cast<int>(result);
}

}  // namespace kintsugi::runtime
