/// Fixed-size, disk-aligned buffers in one region, whose memory goes back to the system when nobody needs it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
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
  void give_back();
  BufferPool* pool_ = nullptr;
  uint64_t holder_ = 0;         ///< the holder that it is counted for; 0: nobody in particular
  Semaphore* share_ = nullptr;  ///< the share whose slot the buffer occupies as well; null: no share
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

/// Lends `count` buffers of `buffer_bytes` (a multiple of kDiskAlignment). Their addresses are mapped once; a buffer
/// takes memory from its first loan until give_back_idle() finds it unused. What a buffer holds when it is lent is not
/// defined.
class BufferPool {
 public:
  BufferPool(const Runtime& runtime, size_t count, size_t buffer_bytes);
  ~BufferPool();  ///< REQUIRES: every buffer is back (asserted)

  /// Waits for a free buffer, first come, first served; kDeadlineExceeded. A task that holds a buffer acquires another
  /// only if the pool was sized for that: otherwise such tasks may wait for one another.
  asio::awaitable<Result<Buffer>> acquire(TimePoint deadline);
  /// Waits for a free buffer on behalf of one of several users that may have no more buffers than `share` has slots, so
  /// that one that does not give its buffers back leaves some to the others. The share outlives the buffer.
  asio::awaitable<Result<Buffer>> acquire(TimePoint deadline, Semaphore& share);
  /// Waits for a free buffer of the share on behalf of one of several holders who come and go (0: for none of them):
  /// none may have more buffers of the share than are free, so that one that keeps them, or wants very many, leaves
  /// some to whoever comes next.
  asio::awaitable<Result<Buffer>> acquire(TimePoint deadline, Semaphore& share, uint64_t holder);
  /// Takes a free buffer; empty when there is none.
  Buffer try_acquire();

  std::span<std::byte> region() const { return region_; }
  size_t buffer_bytes() const { return buffer_bytes_; }
  size_t free() const { return slots_.free(); }

  /// Gives the memory of buffers back to the system that nobody borrowed since the last call. To be called now and
  /// then, as by a timer: what two calls apart is needed both times is kept.
  void give_back_idle();

 private:
  friend class Buffer;
  Buffer lend();  ///< REQUIRES: the caller has acquired a slot
  void give_back(std::byte* data);

  /// What one holder has of a share.
  struct Holder {
    explicit Holder(const Runtime& runtime) : room(runtime) {}
    size_t buffers = 0;  ///< buffers that it has, or is about to get
    size_t users = 0;    ///< these, and calls that wait for one: at 0 the holder is forgotten
    Event room;
  };
  using Holders = std::map<std::pair<Semaphore*, uint64_t>, Holder>;
  bool may_have_another(const Holder& holder, const Semaphore& share) const;
  void leave(Holders::iterator place);
  void end_hold(Semaphore* share, uint64_t holder);

  const Runtime runtime_;
  FaultPoints* const faults_;
  std::span<std::byte> region_;
  size_t buffer_bytes_;
  /// A stack: what was lent last is lent first, so that what is at the bottom is what nobody needs.
  std::vector<std::byte*> free_list_;
  size_t without_memory_;  ///< the lowest entries of the stack: buffers that occupy no memory
  /// The lowest entries of the stack: buffers that nobody borrowed since the last give_back_idle().
  size_t unused_;
  Semaphore slots_;
  Holders holders_;
};

}  // namespace kintsugi::runtime
