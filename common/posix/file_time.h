/// Times of files: seconds and a rest, as kernels tell and take them, and one number of nanoseconds since 1970, as they are
/// kept here. Pure rules.
#pragma once

#include <cstdint>

namespace kintsugi::posix {

struct FileTime {
  int64_t seconds = 0;      ///< seconds since 1970; negative before
  int64_t nanoseconds = 0;  ///< 0 to 999'999'999 more, also before 1970
};

FileTime file_time(int64_t ns_since_1970);
/// A time that is too early or too late for the number (before 1677, after 2262) becomes the first or the last one.
int64_t ns_since_1970(const FileTime& time);

}  // namespace kintsugi::posix
