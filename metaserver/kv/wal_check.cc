#include "metaserver/kv/wal_check.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "common/base/assert.h"
#include "common/base/crc32c.h"

namespace kintsugi::metaserver {
namespace {

constexpr size_t kHeaderBytes = 7;
constexpr size_t kLengthOffset = 4, kTypeOffset = 6;  // offsets of the fields in a record's header

template <class T>
T load(std::span<const std::byte> bytes, size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

/// CRCs are stored in this form, since the CRC of data that holds its own CRC has no strength.
uint32_t masked(uint32_t crc) {
  return std::rotr(crc, 15) + 0xa282ead8;
}

}  // namespace

std::optional<WalCheck::Fragment> WalCheck::read_fragment(std::span<const std::byte> bytes) {
  if (bytes.size() < kHeaderBytes) return std::nullopt;
  const auto type = static_cast<Type>(bytes[kTypeOffset]);
  if (type < Type::kFull || type > Type::kLast) return std::nullopt;
  const size_t length = load<uint16_t>(bytes, kLengthOffset);
  if (bytes.size() - kHeaderBytes < length) return std::nullopt;
  if (load<uint32_t>(bytes, 0) != masked(crc32c(bytes.subspan(kTypeOffset, 1 + length)))) return std::nullopt;
  return Fragment{type, bytes.subspan(kHeaderBytes, length)};
}

void WalCheck::add(std::span<const std::byte> block) {
  KINTSUGI_ASSERT(report_.bytes % kWalBlockBytes == 0 && block.size() <= kWalBlockBytes);
  // A rest of a block that is too short for a header holds nothing.
  for (size_t at = 0; at < block.size() && at + kHeaderBytes <= kWalBlockBytes;) {
    if (const auto fragment = read_fragment(block.subspan(at))) {
      take(*fragment, report_.bytes + at);
      at += kHeaderBytes + fragment->payload.size();
    } else {
      break_at(report_.bytes + at);
      ++at;
    }
  }
  report_.bytes += block.size();
}

void WalCheck::take(const Fragment& fragment, uint64_t offset) {
  const bool begins = fragment.type == Type::kFull || fragment.type == Type::kFirst;
  // Either the record before has no end, or this one has no beginning.
  if (begins == record_at_.has_value()) break_at(offset);
  if (begins) {
    record_at_ = offset;
    batch_header_bytes_ = 0;
  } else if (!record_at_) {
    return;
  }
  const size_t wanted = std::min(kBatchHeaderBytes - batch_header_bytes_, fragment.payload.size());
  std::copy_n(fragment.payload.begin(), wanted, batch_header_.begin() + batch_header_bytes_);
  batch_header_bytes_ += wanted;
  if (fragment.type == Type::kFull || fragment.type == Type::kLast) complete_record();
}

void WalCheck::complete_record() {
  const uint64_t offset = *record_at_;
  if (batch_header_bytes_ < kBatchHeaderBytes) return break_at(offset);
  record_at_.reset();
  const auto sequence = load<uint64_t>(batch_header_, 0);
  const uint64_t next = sequence + load<uint32_t>(batch_header_, sizeof sequence);
  std::optional<uint64_t>& expected = report_.next_sequence;
  // Batches are missing in front of this one, or it is an old one.
  if (expected && sequence != *expected) break_at(offset);
  if (broken_at_) {
    if (!expected || sequence >= *expected) ++report_.following_records;
    return;
  }
  ++report_.intact_records;
  if (!report_.first_sequence) report_.first_sequence = sequence;
  expected = next;
}

void WalCheck::break_at(uint64_t offset) {
  if (!broken_at_) broken_at_ = record_at_.value_or(offset);
  record_at_.reset();
}

WalReport WalCheck::finish() {
  if (record_at_) break_at(*record_at_);
  report_.intact_bytes = broken_at_.value_or(report_.bytes);
  return report_;
}

}  // namespace kintsugi::metaserver
