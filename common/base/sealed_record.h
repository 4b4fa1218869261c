/// A record in memory that several processes use one after the other, with a checksum: one that was killed in the
/// middle of a write leaves nothing that the next one would believe.
#pragma once

#include <cstdint>
#include <span>
#include <type_traits>

#include "common/base/crc32c.h"

namespace kintsugi {

/// `T` is copied byte by byte and has no padding. Memory that is all zero is no record.
template <class T>
struct SealedRecord {
  static_assert(std::is_trivially_copyable_v<T> && std::has_unique_object_representations_v<T>);

  T body;
  uint32_t magic;
  uint32_t crc;  ///< CRC32C of `body`

  void seal(const T& written) {
    body = written;
    magic = kMagic;
    crc = sum();
  }
  bool whole() const { return magic == kMagic && crc == sum(); }
  /// It is no record any more.
  void clear() { *this = {}; }

 private:
  static constexpr uint32_t kMagic = 0x6b53'6c64;
  uint32_t sum() const { return crc32c(std::as_bytes(std::span(&body, 1))); }
};

}  // namespace kintsugi
