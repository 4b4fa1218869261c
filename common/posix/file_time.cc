#include "common/posix/file_time.h"

#include <limits>

namespace kintsugi::posix {

namespace {

constexpr int64_t kNsPerSecond = 1'000'000'000;

}  // namespace

FileTime file_time(int64_t ns_since_1970) {
  FileTime time{ns_since_1970 / kNsPerSecond, ns_since_1970 % kNsPerSecond};
  if (time.nanoseconds < 0) {
    --time.seconds;
    time.nanoseconds += kNsPerSecond;
  }
  return time;
}

int64_t ns_since_1970(const FileTime& time) {
  int64_t total = 0;
  if (__builtin_mul_overflow(time.seconds, kNsPerSecond, &total) ||
      __builtin_add_overflow(total, time.nanoseconds, &total)) {
    using Limits = std::numeric_limits<int64_t>;
    return time.seconds < 0 ? Limits::min() : Limits::max();
  }
  return total;
}

}  // namespace kintsugi::posix
