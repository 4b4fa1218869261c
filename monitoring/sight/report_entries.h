/// What the writers of a report share.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace kintsugi::sight {

/// What an entry of a repeated field takes beside its message.
inline constexpr size_t kEntryBytes = 4;

/// The time from `then` to `now`, both in ns. Clocks of two threads may differ a little: never negative.
inline uint64_t since(int64_t now, int64_t then) {
  return static_cast<uint64_t>(std::max<int64_t>(0, now - then));
}

}  // namespace kintsugi::sight
