/// What calls of ISA-L share.
#pragma once

#include <cstddef>

namespace kintsugi::erasure {

/// ISA-L takes lengths as int: more bytes go in several calls.
inline constexpr size_t kMaxCallBytes = size_t{1} << 30;

/// ISA-L has no const in its interface. It does not write to what it only reads.
inline unsigned char* isal(const std::byte* bytes) {
  return const_cast<unsigned char*>(reinterpret_cast<const unsigned char*>(bytes));
}

}  // namespace kintsugi::erasure
