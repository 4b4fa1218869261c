/// How much of what is written the metaserver keeps itself (docs/decisions/030): few bytes that somebody waits for.
#pragma once

#include <cstdint>

namespace kintsugi::proto {

inline constexpr uint64_t kMaxInlineFileBytes = 16 << 10;  ///< limit for one file in one call
inline constexpr uint64_t kMaxInlineCallBytes = 64 << 10;  ///< limit for all files in one call together

}  // namespace kintsugi::proto
