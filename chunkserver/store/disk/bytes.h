/// Little-endian encoding of the store's on-disk headers.
#pragma once

#include <bit>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "common/base/assert.h"

namespace kintsugi::chunkserver {

static_assert(std::endian::native == std::endian::little, "headers are written as the machine holds them");

/// Writes fields one after the other into a fixed space. REQUIRES: they fit (asserted).
class ByteWriter {
 public:
  explicit ByteWriter(std::span<std::byte> out) : out_(out) {}

  template <class T>
  void put(T value) {
    KINTSUGI_ASSERT(at_ + sizeof value <= out_.size());
    std::memcpy(out_.data() + at_, &value, sizeof value);
    at_ += sizeof value;
  }
  /// Writes a byte with the length, then the text. REQUIRES: less than 256 bytes.
  void put_text(std::string_view text) {
    KINTSUGI_ASSERT(text.size() < 256 && at_ + 1 + text.size() <= out_.size());
    put(static_cast<uint8_t>(text.size()));
    std::memcpy(out_.data() + at_, text.data(), text.size());
    at_ += text.size();
  }
  size_t written() const { return at_; }

 private:
  std::span<std::byte> out_;
  size_t at_ = 0;
};

/// Reads the same fields back from bytes that may be anything: past the end it yields zeros, and ok() is false from
/// then on.
class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> in) : in_(in) {}

  template <class T>
  T get() {
    T value{};
    if (in_.size() - at_ < sizeof value) {
      ok_ = false;
      return value;
    }
    std::memcpy(&value, in_.data() + at_, sizeof value);
    at_ += sizeof value;
    return value;
  }
  std::string get_text() {
    size_t size = get<uint8_t>();
    if (in_.size() - at_ < size) {
      ok_ = false;
      return {};
    }
    std::string text(reinterpret_cast<const char*>(in_.data() + at_), size);
    at_ += size;
    return text;
  }
  bool ok() const { return ok_; }

 private:
  std::span<const std::byte> in_;
  size_t at_ = 0;
  bool ok_ = true;
};

}  // namespace kintsugi::chunkserver
