/// Status and Result<T>: every fallible function of Kintsugi reports with them how it went.
///
/// A Status is a code for programs, a sentence for a person, and the context gathered on the way up
/// ("chunk 81:3 on server 7: read block 12: checksum mismatch"). Exceptions stay inside the layer that a
/// library throws into.
#pragma once

#include <ostream>
#include <string>
#include <string_view>

#include <boost/system/result.hpp>

#include "common/base/ids.h"

namespace kintsugi {

/// Values travel over the wire: never renumber.
enum class Code : uint8_t {
  kOk = 0,
  kNotFound = 1,
  kAlreadyExists = 2,
  kInvalidArgument = 3,
  kPermissionDenied = 4,
  kUnavailable = 5,  ///< the other side is down, restarting or unreachable: another server or a retry may do
  kDeadlineExceeded = 6,
  kCancelled = 7,  ///< this side closed or stopped
  kCorrupt = 8,    ///< bytes do not match their checksum or have no valid format
  kNoSpace = 9,
  kIoError = 10,
  kConflict = 11,  ///< a precondition no longer holds
  kNotEmpty = 12,
  kNotDirectory = 13,
  kIsDirectory = 14,
  kLimitExceeded = 15,  ///< a named limit was reached
  kInternal = 16,
  kNotPermitted = 17,  ///< only the owner or root may do this
  kAccessDenied = 18,  ///< the mode or the access list of the file forbids it
  kNameTooLong = 19,
  kTooManyLinks = 20,
  kCrossDevice = 21,
  kNotSupported = 22,
  kNoData = 23,  ///< no such extended attribute
  kRange = 24,   ///< the result does not fit, or an offset lies outside of the file
  kFileTooLarge = 25,
  kStale = 26,  ///< the inode is gone
  kQuota = 27,
  kWouldBlock = 28,
  kDeadlock = 29,
  kInterrupted = 30,
  kBadHandle = 31,
  kTooBig = 32,
  kSymlinkLoop = 33,
  kNoDevice = 34,
  kReadOnly = 35,        ///< the file is in a snapshot, which never changes
  kMediumError = 36,     ///< the disk cannot read these bytes; other bytes on it may be readable
  kReadOnlyDevice = 37,  ///< the file system refuses writes; what it holds may be readable
  kOutOfMemory = 38,     ///< this process or its kernel lacks memory at the moment
  /// The client lost its write lease, and another had it meanwhile: what was written under the lease is refused.
  kLeaseLost = 39,
};
inline constexpr Code kLastCode = Code::kLeaseLost;

/// The name of a code for people: "not found", "corrupt", ...
std::string_view code_name(Code code);

/// Whose fault a failure is, as far as whoever saw it happen could tell. It travels with the error over the wire, so
/// that a repair that failed deep inside a tree is planned again without the server that broke it.
struct Culprit {
  ServerId server;  ///< the server to blame; none: nobody in particular is to blame
  ChunkId chunk;    ///< the chunk that could not be served there; stripe 0: the server as a whole is at fault

  explicit operator bool() const { return static_cast<bool>(server); }
  bool operator==(const Culprit&) const = default;
};

class [[nodiscard]] Status {
 public:
  Status() = default;  ///< ok
  Status(Code code, std::string message) : code_(code), message_(std::move(message)) {}

  bool ok() const { return code_ == Code::kOk; }
  Code code() const { return code_; }
  const std::string& message() const { return message_; }

  const Culprit& culprit() const { return culprit_; }

  /// "where: message" with the same culprit; an ok status stays as it is.
  [[nodiscard]] Status with_context(std::string_view where) const;
  /// Returns the same error with `culprit` to blame, unless somebody is already: whoever is nearest to the cause speaks
  /// first.
  /// An ok status stays as it is.
  [[nodiscard]] Status blame(Culprit culprit) const;
  [[nodiscard]] Status blame(ServerId server) const { return blame(Culprit{.server = server, .chunk = {}}); }

  /// "corrupt: chunk 81:3: ..." or "ok".
  std::string to_string() const;

  bool operator==(const Status& other) const = default;

 private:
  Code code_ = Code::kOk;
  std::string message_;
  Culprit culprit_;
};

std::ostream& operator<<(std::ostream& out, const Status& status);

/// Returns kInvalidArgument with this message.
inline Status invalid(std::string message) {
  return {Code::kInvalidArgument, std::move(message)};
}

/// Called by Result<T>::value() on an error: that is a bug of the caller.
[[noreturn]] void throw_exception_from_error(const Status& status, const boost::source_location& where);

/// A value or a non-ok Status: `if (!result) return result.error();`, then `*result`.
template <class T>
using Result = boost::system::result<T, Status>;

/// Maps an errno value; `what` names the operation and its object.
Status status_from_errno(int error, std::string_view what);

}  // namespace kintsugi

#define KINTSUGI_CONCAT_INNER(a, b) a##b
#define KINTSUGI_CONCAT(a, b) KINTSUGI_CONCAT_INNER(a, b)

/// Leaves the function (or, CO_, the coroutine) with the status when it is not ok. The expression may hold co_await.
#define KINTSUGI_TRY(expression)                                                  \
  do {                                                                            \
    if (::kintsugi::Status status_ = (expression); !status_.ok()) return status_; \
  } while (false)
#define KINTSUGI_CO_TRY(expression)            \
  do {                                         \
    ::kintsugi::Status status_ = (expression); \
    if (!status_.ok()) co_return status_;      \
  } while (false)

/// KINTSUGI_ASSIGN(auto value, result_expression): declares `value`, or leaves with the error.
#define KINTSUGI_ASSIGN_IMPL(temporary, declaration, expression, leave) \
  auto temporary = (expression);                                        \
  if (!temporary) leave temporary.error();                              \
  declaration = std::move(*temporary)
#define KINTSUGI_ASSIGN(declaration, expression) \
  KINTSUGI_ASSIGN_IMPL(KINTSUGI_CONCAT(result_, __LINE__), declaration, expression, return)
#define KINTSUGI_CO_ASSIGN(declaration, expression) \
  KINTSUGI_ASSIGN_IMPL(KINTSUGI_CONCAT(result_, __LINE__), declaration, expression, co_return)
