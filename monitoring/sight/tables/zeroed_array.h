/// An array whose memory the kernel gives page by page, as it is touched first: a daemon that records little keeps
/// little, and nothing is written at its start.
#pragma once

#include <cstdlib>
#include <memory>
#include <new>
#include <span>
#include <type_traits>

namespace kintsugi::sight {

/// REQUIRES: a T of zero bytes is a T as its constructor makes it.
template <class T>
class ZeroedArray {
 public:
  static_assert(std::is_trivially_destructible_v<T> && alignof(T) <= alignof(std::max_align_t));

  explicit ZeroedArray(size_t size)
      : memory_(std::calloc(size, sizeof(T)), std::free), items_(static_cast<T*>(memory_.get()), size) {
    if (memory_ == nullptr) throw std::bad_alloc();
  }
  size_t size() const { return items_.size(); }
  T& operator[](size_t i) { return items_[i]; }
  const T& operator[](size_t i) const { return items_[i]; }

 private:
  std::unique_ptr<void, void (*)(void*)> memory_;
  std::span<T> items_;
};

}  // namespace kintsugi::sight
