#include "common/base/status.h"

#include <cerrno>
#include <cstring>
#include <stdexcept>

#include <fmt/format.h>

namespace kintsugi {

std::string_view code_name(Code code) {
  switch (code) {
    case Code::kOk: return "ok";
    case Code::kNotFound: return "not found";
    case Code::kAlreadyExists: return "already exists";
    case Code::kInvalidArgument: return "invalid argument";
    case Code::kPermissionDenied: return "permission denied";
    case Code::kUnavailable: return "unavailable";
    case Code::kDeadlineExceeded: return "deadline exceeded";
    case Code::kCancelled: return "cancelled";
    case Code::kCorrupt: return "corrupt";
    case Code::kNoSpace: return "no space";
    case Code::kIoError: return "I/O error";
    case Code::kConflict: return "conflict";
    case Code::kNotEmpty: return "not empty";
    case Code::kNotDirectory: return "not a directory";
    case Code::kIsDirectory: return "is a directory";
    case Code::kLimitExceeded: return "limit exceeded";
    case Code::kInternal: return "internal error";
    case Code::kNotPermitted: return "not permitted";
    case Code::kAccessDenied: return "access denied";
    case Code::kNameTooLong: return "name too long";
    case Code::kTooManyLinks: return "too many links";
    case Code::kCrossDevice: return "on another file system";
    case Code::kNotSupported: return "not supported";
    case Code::kNoData: return "no such attribute";
    case Code::kRange: return "out of range";
    case Code::kFileTooLarge: return "file too large";
    case Code::kStale: return "stale";
    case Code::kQuota: return "over quota";
    case Code::kWouldBlock: return "would block";
    case Code::kDeadlock: return "deadlock";
    case Code::kInterrupted: return "interrupted";
    case Code::kBadHandle: return "bad handle";
    case Code::kTooBig: return "too big";
    case Code::kSymlinkLoop: return "too many symbolic links";
    case Code::kNoDevice: return "no such device";
    case Code::kReadOnly: return "read-only";
    case Code::kMediumError: return "medium error";
    case Code::kReadOnlyDevice: return "read-only device";
    case Code::kOutOfMemory: return "out of memory";
    case Code::kLeaseLost: return "lease lost";
  }
  return "unknown code";
}

Status Status::with_context(std::string_view where) const {
  if (ok()) return *this;
  Status status{code_, fmt::format("{}: {}", where, message_)};
  status.culprit_ = culprit_;
  return status;
}

Status Status::blame(Culprit culprit) const {
  Status status = *this;
  if (!ok() && !culprit_) status.culprit_ = culprit;
  return status;
}

std::string Status::to_string() const {
  if (ok()) return "ok";
  return fmt::format("{}: {}", code_name(code_), message_);
}

std::ostream& operator<<(std::ostream& out, const Status& status) {
  return out << status.to_string();
}

void throw_exception_from_error(const Status& status, const boost::source_location& where) {
  throw std::logic_error(fmt::format("{}:{}: value() of a failed result: {}", where.file_name(), where.line(),
                                     status.to_string()));
}

Status status_from_errno(int error, std::string_view what) {
  Code code = Code::kIoError;
  switch (error) {
    case ENOENT: code = Code::kNotFound; break;
    case EEXIST: code = Code::kAlreadyExists; break;
    case EACCES:
    case EPERM: code = Code::kPermissionDenied; break;
    case ENOSPC:
    case EDQUOT: code = Code::kNoSpace; break;
    case EINVAL: code = Code::kInvalidArgument; break;
    case ENOTDIR: code = Code::kNotDirectory; break;
    case EISDIR: code = Code::kIsDirectory; break;
    case ENOTEMPTY: code = Code::kNotEmpty; break;
    case ECONNREFUSED:
    case ECONNRESET:
    case EPIPE:
    case ECONNABORTED:
    case ENOTCONN:
    case EHOSTDOWN:
    case ENETDOWN:
    case EHOSTUNREACH:
    case ENETUNREACH: code = Code::kUnavailable; break;
    case ETIMEDOUT: code = Code::kDeadlineExceeded; break;
    case EMFILE:
    case ENFILE: code = Code::kLimitExceeded; break;
    case ECANCELED: code = Code::kCancelled; break;
    case EROFS: code = Code::kReadOnlyDevice; break;
    case ENOMEM:
    case EAGAIN: code = Code::kOutOfMemory; break;
    default: break;
  }
  return {code, fmt::format("{}: {}", what, std::strerror(error))};
}

}  // namespace kintsugi
