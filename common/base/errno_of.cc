#include "common/base/errno_of.h"

#include <cerrno>

namespace kintsugi {

int errno_of(const Status& status) {
  switch (status.code()) {
    case Code::kOk: return 0;
    case Code::kNotFound: return ENOENT;
    case Code::kAlreadyExists: return EEXIST;
    case Code::kInvalidArgument: return EINVAL;
    case Code::kPermissionDenied: return EACCES;
    // The cluster could not do it in the time that the user allows. Nothing more exact would be understood: an
    // application that sees ETIMEDOUT or EHOSTDOWN from read(2) of a file treats it as a bug.
    case Code::kUnavailable:
    case Code::kDeadlineExceeded:
    case Code::kCorrupt:
    case Code::kIoError:
    case Code::kConflict:
    case Code::kInternal: return EIO;
    case Code::kCancelled: return EINTR;
    case Code::kNoSpace: return ENOSPC;
    case Code::kNotEmpty: return ENOTEMPTY;
    case Code::kNotDirectory: return ENOTDIR;
    case Code::kIsDirectory: return EISDIR;
    // A named limit of the cluster is what a quota is to its users; ENFILE would send them to their own ulimits.
    case Code::kLimitExceeded: return EDQUOT;
    case Code::kNotPermitted: return EPERM;
    case Code::kAccessDenied: return EACCES;
    case Code::kNameTooLong: return ENAMETOOLONG;
    case Code::kTooManyLinks: return EMLINK;
    case Code::kCrossDevice: return EXDEV;
    // Not ENOSYS: the kernel takes that for "never ask again".
    case Code::kNotSupported: return EOPNOTSUPP;
    case Code::kNoData: return ENODATA;
    case Code::kRange: return ERANGE;
    case Code::kFileTooLarge: return EFBIG;
    case Code::kStale:
    case Code::kLeaseLost: return ESTALE;
    case Code::kQuota: return EDQUOT;
    case Code::kWouldBlock: return EAGAIN;
    case Code::kDeadlock: return EDEADLK;
    case Code::kInterrupted: return EINTR;
    case Code::kBadHandle: return EBADF;
    case Code::kTooBig: return E2BIG;
    case Code::kSymlinkLoop: return ELOOP;
    case Code::kNoDevice: return ENXIO;
    case Code::kReadOnly: return EROFS;
    case Code::kMediumError: return EIO;
    case Code::kReadOnlyDevice: return EROFS;
    case Code::kOutOfMemory: return ENOMEM;
  }
  return EIO;
}

}  // namespace kintsugi
