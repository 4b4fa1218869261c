/// Frames as a peer with other ideas would send them.
#pragma once

#include <cstring>
#include <span>

#include "common/base/crc32c.h"

namespace kintsugi::rpc {

/// Puts another value into a field of a frame's fixed header, and the checksum that fits.
template <class T>
void overwrite(std::span<std::byte> frame, size_t at, T value) {
  constexpr size_t kChecksumOffset = 60;
  std::memcpy(frame.data() + at, &value, sizeof value);
  const uint32_t crc = crc32c(frame.first(kChecksumOffset));
  std::memcpy(frame.data() + kChecksumOffset, &crc, sizeof crc);
}

}  // namespace kintsugi::rpc
