/// Write-ahead logs as RocksDB writes them, made in memory.
#pragma once

#include <bit>
#include <cstring>
#include <string>
#include <string_view>

#include "common/base/crc32c.h"
#include "metaserver/kv/wal_check.h"

namespace kintsugi::metaserver {

/// Contents of a record: a batch of `count` writes, `bytes` long with its header.
inline std::string wal_batch(uint64_t sequence, uint32_t count, size_t bytes) {
  std::string batch(std::max(bytes, sizeof sequence + sizeof count), 'w');
  std::memcpy(batch.data(), &sequence, sizeof sequence);
  std::memcpy(batch.data() + sizeof sequence, &count, sizeof count);
  return batch;
}

/// Header and contents of a fragment; 1 to 4 are its types: whole, first, middle and last of a record.
inline std::string wal_fragment(uint8_t type, std::string_view payload) {
  std::string fragment(6, '\0');
  fragment += static_cast<char>(type);
  fragment += payload;
  const uint32_t crc = std::rotr(crc32c(std::as_bytes(std::span(fragment)).subspan(6)), 15) + 0xa282ead8;
  const auto length = static_cast<uint16_t>(payload.size());
  std::memcpy(fragment.data(), &crc, sizeof crc);
  std::memcpy(fragment.data() + sizeof crc, &length, sizeof length);
  return fragment;
}

/// Appends a record, cut into fragments where blocks end.
inline void append_wal_record(std::string& log, std::string_view record) {
  constexpr size_t kHeaderBytes = 7;
  for (bool first = true, last = false; !last; first = false) {
    size_t left = kWalBlockBytes - log.size() % kWalBlockBytes;
    if (left < kHeaderBytes) {
      log.append(left, '\0');
      left = kWalBlockBytes;
    }
    const std::string_view payload = record.substr(0, left - kHeaderBytes);
    record.remove_prefix(payload.size());
    last = record.empty();
    log += wal_fragment(first ? (last ? 1 : 2) : (last ? 4 : 3), payload);
  }
}

inline WalReport check_wal(std::string_view log) {
  WalCheck check;
  for (; log.size() > kWalBlockBytes; log.remove_prefix(kWalBlockBytes))
    check.add(std::as_bytes(std::span(log.substr(0, kWalBlockBytes))));
  check.add(std::as_bytes(std::span(log)));
  return check.finish();
}

}  // namespace kintsugi::metaserver
