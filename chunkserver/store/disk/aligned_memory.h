/// Heap memory that a disk may read into and write from, for uses that are too rare or too odd in size for
/// the BufferPool.
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <new>
#include <span>

#include "common/base/math.h"
#include "common/runtime/disk.h"

namespace kintsugi::chunkserver {

/// Address and size are multiples of kDiskAlignment; contents begin as zeros. Move-only.
class AlignedMemory {
 public:
  AlignedMemory() = default;
  explicit AlignedMemory(size_t bytes)
      : size_(round_up(bytes, runtime::kDiskAlignment)),
        data_(size_ == 0 ? nullptr : static_cast<std::byte*>(::operator new(size_, kAlignment))) {
    if (size_ > 0) std::memset(data_.get(), 0, size_);
  }

  std::byte* data() const { return data_.get(); }
  size_t size() const { return size_; }
  std::span<std::byte> span() const { return {data_.get(), size_}; }
  std::span<std::byte> first(size_t bytes) const { return span().first(bytes); }

 private:
  static constexpr std::align_val_t kAlignment{runtime::kDiskAlignment};
  struct Free {
    void operator()(std::byte* memory) const { ::operator delete(memory, kAlignment); }
  };
  size_t size_ = 0;
  std::unique_ptr<std::byte, Free> data_;
};

}  // namespace kintsugi::chunkserver
