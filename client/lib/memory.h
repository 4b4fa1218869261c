/// The client's bound on memory: every byte of file data in flight lives in one of these buffers.
///
/// A task reserves all buffers it may come to need at once, so tasks that each hold some and wait for more cannot lock
/// each other out. Single-threaded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>

#include <boost/asio/awaitable.hpp>

#include "common/base/math.h"
#include "common/base/status.h"
#include "common/runtime/buffer_pool.h"
#include "common/runtime/event.h"

namespace kintsugi::client {

class Memory;

/// A right to `count` buffers, given back on destruction. Move-only. The Memory must outlive it.
class Lease {
 public:
  Lease() = default;
  Lease(Lease&& other) noexcept;
  Lease& operator=(Lease&& other) noexcept;
  ~Lease();

  size_t count() const { return count_; }
  /// Hands `count` of this lease's buffers over to the result. REQUIRES: count <= this->count().
  Lease split(size_t count);
  /// Takes over the buffers of `more`, a lease of the same Memory.
  void add(Lease more);

 private:
  friend class Memory;
  Lease(Memory* memory, size_t count) : memory_(memory), count_(count) {}
  Memory* memory_ = nullptr;
  size_t count_ = 0;
};

class Memory {
 public:
  static constexpr size_t kBufferBytes = size_t{1} << 20;
  /// How many buffers hold `bytes`.
  static constexpr size_t buffers_for(uint64_t bytes) { return divide_up(bytes, kBufferBytes); }

  Memory(const runtime::Runtime& runtime, size_t bytes);

  size_t buffers() const { return total_; }

  /// First come, first served. kLimitExceeded when `count` is more than there are at all, kDeadlineExceeded.
  asio::awaitable<Result<Lease>> reserve(size_t count, TimePoint deadline);
  /// Never waits: an empty lease when `count` buffers are not free right now or others wait.
  Lease try_reserve(size_t count);

  /// Takes a buffer that some lease stands for, so there is always one (asserted). It returns to the pool by itself;
  /// the lease must outlive it.
  runtime::Buffer take();

  /// See BufferPool.
  void give_back_idle() { pool_.give_back_idle(); }

 private:
  friend class Lease;
  void give_back(size_t count);

  size_t total_;
  size_t free_;
  uint64_t next_ticket_ = 0;
  std::deque<uint64_t> waiting_;
  runtime::Event freed_;
  runtime::BufferPool pool_;
};

}  // namespace kintsugi::client
