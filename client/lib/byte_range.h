/// A range of a file.
#pragma once

#include <cstdint>

namespace kintsugi::client {

struct ByteRange {
  uint64_t begin = 0, end = 0;
  uint64_t length() const { return end - begin; }
  bool operator==(const ByteRange&) const = default;
};

}  // namespace kintsugi::client
