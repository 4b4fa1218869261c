/// Counts the memory of one node of a tree where it is taken.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

namespace kintsugi::partial_sum {

/// The memory of sums, parts of frames and own reads, which WindowSize bounds. Buffers of the store's write-behind and
/// of the kernel are not in it.
class HeldMemory {
 public:
  void take(uint64_t bytes) { peak_ = std::max(peak_, now_ += bytes); }
  void give_back(uint64_t bytes) { now_ -= bytes; }
  uint64_t peak() const { return peak_; }

 private:
  uint64_t now_ = 0, peak_ = 0;
};

/// Uninitialised bytes that are counted while they are held. Move-only.
class HeldBytes {
 public:
  HeldBytes() = default;
  HeldBytes(HeldMemory& held, size_t bytes)
      : held_(&held), size_(bytes), data_(std::make_unique_for_overwrite<std::byte[]>(bytes)) {
    held_->take(size_);
  }
  HeldBytes(HeldBytes&& other) noexcept { *this = std::move(other); }
  HeldBytes& operator=(HeldBytes&& other) noexcept {
    if (this == &other) return *this;
    free();
    held_ = std::exchange(other.held_, nullptr);
    size_ = std::exchange(other.size_, 0);
    data_ = std::move(other.data_);
    return *this;
  }
  ~HeldBytes() { free(); }

  bool empty() const { return size_ == 0; }
  size_t size() const { return size_; }
  std::span<std::byte> span() const { return {data_.get(), size_}; }

 private:
  void free() {
    if (held_ != nullptr) held_->give_back(size_);
    held_ = nullptr;
  }
  HeldMemory* held_ = nullptr;
  size_t size_ = 0;
  std::unique_ptr<std::byte[]> data_;
};

}  // namespace kintsugi::partial_sum
