/// Numbers and texts out of a fuzzer's input, in order. What the input no longer holds is zero or empty.
#pragma once

#include <algorithm>
#include <cstring>
#include <string_view>
#include <type_traits>

namespace kintsugi::fuzz {

class Input {
 public:
  explicit Input(std::string_view bytes) : left_(bytes) {}

  template <class T>
    requires std::is_trivially_copyable_v<T>
  T number() {
    T value{};
    const std::string_view bytes = text(sizeof value);
    std::memcpy(&value, bytes.data(), bytes.size());
    return value;
  }
  std::string_view text(size_t bytes) {
    const std::string_view taken = left_.substr(0, std::min(bytes, left_.size()));
    left_.remove_prefix(taken.size());
    return taken;
  }
  std::string_view rest() { return text(left_.size()); }

 private:
  std::string_view left_;
};

}  // namespace kintsugi::fuzz
