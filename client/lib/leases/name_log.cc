#include "client/lib/leases/name_log.h"

#include <cstring>

#include "common/base/assert.h"

namespace kintsugi::client {
namespace {

constexpr size_t kBoundsBytes = sizeof(uint64_t), kLengthBytes = sizeof(uint32_t);

}  // namespace

NameLog::NameLog(std::span<std::byte> region) : region_(region) {
  KINTSUGI_ASSERT(region_.empty() || (region_.size() > kBoundsBytes && region_.size() < UINT32_MAX));
  if (!region_.empty()) read();
}

void NameLog::read() {
  uint64_t bounds = 0;
  std::memcpy(&bounds, region_.data(), kBoundsBytes);
  begin_ = bounds >> 32;
  end_ = bounds & UINT32_MAX;
  for (uint64_t at = begin_; at + kLengthBytes <= end_ && end_ <= region_.size() - kBoundsBytes;) {
    uint32_t length = 0;
    std::memcpy(&length, region_.data() + kBoundsBytes + at, kLengthBytes);
    if (length > end_ - at - kLengthBytes) break;
    Kept kept;
    const auto* bytes = region_.data() + kBoundsBytes + at + kLengthBytes;
    if (!kept.change.ParseFromArray(bytes, static_cast<int>(length))) break;
    kept.bytes = kLengthBytes + length;
    at += kept.bytes;
    changes_.push_back(std::move(kept));
  }
}

void NameLog::set_bounds(uint64_t begin, uint64_t end) {
  begin_ = begin;
  end_ = end;
  auto& word = *reinterpret_cast<volatile uint64_t*>(region_.data());
  word = begin << 32 | end;
}

bool NameLog::append(proto::NameChange change) {
  if (region_.empty()) {
    own_.resize(kBytes);
    region_ = own_;
  }
  const size_t length = change.ByteSizeLong();
  if (end_ + kLengthBytes + length > region_.size() - kBoundsBytes) return false;
  std::byte* at = region_.data() + kBoundsBytes + end_;
  const auto stored = static_cast<uint32_t>(length);
  std::memcpy(at, &stored, kLengthBytes);
  change.SerializeWithCachedSizesToArray(reinterpret_cast<uint8_t*>(at + kLengthBytes));
  changes_.push_back({std::move(change), kLengthBytes + length});
  set_bounds(begin_, end_ + kLengthBytes + length);
  return true;
}

void NameLog::drop(size_t count) {
  KINTSUGI_ASSERT(count <= changes_.size());
  uint64_t begin = begin_;
  for (size_t i = 0; i < count; ++i) {
    begin += changes_.front().bytes;
    changes_.pop_front();
  }
  if (changes_.empty()) {
    set_bounds(0, 0);
  } else {
    set_bounds(begin, end_);
  }
}

}  // namespace kintsugi::client
