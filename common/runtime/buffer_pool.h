/// Fixed-size, disk-aligned buffers in one region, so that the disk layer can register them with the kernel once.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include <boost/asio/awaitable.hpp>

#include "common/base/status.h"
#include "common/runtime/event.h"

namespace kintsugi::runtime {

class BufferPool;

/// One buffer on loan, which returns itself when it dies. Move-only. The pool must outlive it.
class Buffer {
 public:
  Buffer() = default;
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  ~Buffer();

  std::byte* data() const { return data_; }
  size_t size() const { return size_; }
  std::span<std::byte> span() const { return {data_, size_}; }
  std::span<std::byte> first(size_t bytes) const { return span().first(bytes); }
  explicit operator bool() const { return data_ != nullptr; }

 private:
  friend class BufferPool;
  Buffer(BufferPool* pool, std::byte* data, size_t size) : pool_(pool), data_(data), size_(size) {}
  BufferPool* pool_ = nullptr;
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

/// Lends `count` buffers of `buffer_bytes` (a multiple of kDiskAlignment). Their memory is mapped once and never grows.
class BufferPool {
 public:
  BufferPool(const Runtime& runtime, size_t count, size_t buffer_bytes);
  ~BufferPool();  ///< REQUIRES: every buffer is back (asserted)

  /// Waits for a free buffer, first come, first served; kDeadlineExceeded. A task that holds a buffer acquires another
  /// only if the pool was sized for that: otherwise such tasks may wait for one another.
  asio::awaitable<Result<Buffer>> acquire(TimePoint deadline);
  /// Takes a free buffer; empty when there is none.
  Buffer try_acquire();

  std::span<std::byte> region() const { return region_; }
  size_t buffer_bytes() const { return buffer_bytes_; }
  size_t free() const { return slots_.free(); }

  /// `hook` runs before the memory is unmapped: whoever registered the region with the kernel forgets it there.
  void before_unmap(std::function<void()> hook) { before_unmap_.push_back(std::move(hook)); }

 private:
  friend class Buffer;
  Buffer lend();  ///< REQUIRES: a slot was acquired
  void give_back(std::byte* data);

  std::span<std::byte> region_;
  size_t buffer_bytes_;
  std::vector<std::byte*> free_list_;
  Semaphore slots_;
  std::vector<std::function<void()>> before_unmap_;
};

}  // namespace kintsugi::runtime
