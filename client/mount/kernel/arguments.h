/// Reads the arguments of a request from the kernel, and believes none of them.
#pragma once

#include <cerrno>
#include <span>
#include <string_view>

#include "client/mount/kernel/protocol.h"

namespace kintsugi::mount {

/// A cursor over the bytes behind the header of a request. The first thing that is wrong is remembered, and everything
/// read after it is empty: a handler reads all it needs and asks once.
class Arguments {
 public:
  explicit Arguments(std::span<const std::byte> bytes) : bytes_(bytes) {}

  /// A structure of the protocol; zeros when the request is too short.
  template <class T>
  T take() {
    T value{};
    take_into(&value, sizeof(T));
    return value;
  }

  /// A name of an entry: 1 to 255 bytes without a slash, ended by a nul.
  std::string_view name();
  /// A name that is going to be made or removed: neither "." nor "..".
  std::string_view new_name();
  /// Any text up to its nul, 1 to `limit` bytes.
  std::string_view text(size_t limit, int too_long);
  /// The next `bytes`.
  std::span<const std::byte> data(size_t bytes);

  /// 0, or the errno of the first thing that was wrong.
  int error() const { return error_; }
  void fail(int error) {
    if (error_ == 0) error_ = error;
    bytes_ = {};
  }
  /// Fails unless offset + length is a position in a file.
  void check_range(uint64_t offset, uint64_t length) {
    if (offset > INT64_MAX || length > INT64_MAX - offset) fail(EINVAL);
  }
  size_t left() const { return bytes_.size(); }

 private:
  void take_into(void* value, size_t size);

  std::span<const std::byte> bytes_;
  int error_ = 0;
};

}  // namespace kintsugi::mount
