#include "common/runtime/buffer_pool.h"

#include <algorithm>
#include <utility>

#include <sanitizer/asan_interface.h>
#include <sys/mman.h>

#include "common/base/assert.h"
#include "common/runtime/disk.h"
#include "common/runtime/fault_points.h"

namespace kintsugi::runtime {

Buffer::Buffer(Buffer&& other) noexcept
    : pool_(std::exchange(other.pool_, nullptr)),
      holder_(std::exchange(other.holder_, 0)),
      share_(std::exchange(other.share_, nullptr)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  if (this == &other) return *this;
  give_back();
  pool_ = std::exchange(other.pool_, nullptr);
  holder_ = std::exchange(other.holder_, 0);
  share_ = std::exchange(other.share_, nullptr);
  data_ = std::exchange(other.data_, nullptr);
  size_ = std::exchange(other.size_, 0);
  return *this;
}

Buffer::~Buffer() {
  give_back();
}

void Buffer::give_back() {
  if (pool_ == nullptr) return;
  pool_->give_back(data_);
  if (share_ != nullptr)
    do_or_lose(pool_->faults_, {FaultPoint::kRelease, "buffer"}, [share = share_] { share->release(); });
  pool_->end_hold(share_, holder_);
}

BufferPool::BufferPool(const Runtime& runtime, size_t count, size_t buffer_bytes)
    : runtime_(runtime),
      faults_(runtime.faults),
      buffer_bytes_(buffer_bytes),
      without_memory_(count),
      unused_(count),
      slots_(runtime, count) {
  KINTSUGI_ASSERT(count > 0 && buffer_bytes > 0 && buffer_bytes % kDiskAlignment == 0);
  size_t bytes = count * buffer_bytes;
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  KINTSUGI_ASSERT(memory != MAP_FAILED);
  region_ = {static_cast<std::byte*>(memory), bytes};
  // The kernel pins every page of a transfer while it lasts: of large pages it has fewer to pin. It need not have any.
  (void)madvise(memory, bytes, MADV_HUGEPAGE);
  free_list_.reserve(count);
  // The last of the list is lent first: low addresses go out first, so that memory that is never needed
  // is never touched.
  for (size_t index = count; index-- > 0;)
    free_list_.push_back(region_.data() + index * buffer_bytes);
  // Under the address sanitizer a buffer that nobody borrowed is as forbidden as freed memory.
  ASAN_POISON_MEMORY_REGION(region_.data(), region_.size());
}

BufferPool::~BufferPool() {
  KINTSUGI_ASSERT(free_list_.size() * buffer_bytes_ == region_.size());
  ASAN_UNPOISON_MEMORY_REGION(region_.data(), region_.size());
  munmap(region_.data(), region_.size());
}

asio::awaitable<Result<Buffer>> BufferPool::acquire(TimePoint deadline) {
  KINTSUGI_CO_TRY(co_await slots_.acquire(deadline));
  co_return lend();
}

asio::awaitable<Result<Buffer>> BufferPool::acquire(TimePoint deadline, Semaphore& share) {
  KINTSUGI_CO_TRY(co_await share.acquire(deadline));
  auto buffer = co_await acquire(deadline);
  if (buffer) {
    buffer->share_ = &share;
  } else {
    share.release();
  }
  co_return buffer;
}

bool BufferPool::may_have_another(const Holder& holder, const Semaphore& share) const {
  return holder.buffers == 0 || holder.buffers < std::min(slots_.free(), share.free());
}

asio::awaitable<Result<Buffer>> BufferPool::acquire(TimePoint deadline, Semaphore& share, uint64_t number) {
  if (number == 0) co_return co_await acquire(deadline, share);
  const auto place = holders_.try_emplace({&share, number}, runtime_).first;
  Holder& holder = place->second;
  ++holder.users;
  // Whoever waits here waits for a buffer that its holder has.
  Status granted;
  for (bool first = holder.room.waiting() == 0; granted.ok() && !(first && may_have_another(holder, share));
       first = true) {
    if (!co_await holder.room.wait_until(deadline))
      granted = Status{Code::kDeadlineExceeded, "others of the same peer have the buffers"};
  }
  if (!granted.ok()) {
    leave(place);
    co_return granted;
  }
  ++holder.buffers;
  if (may_have_another(holder, share)) holder.room.notify_one();
  auto buffer = co_await acquire(deadline, share);
  if (buffer) {
    buffer->holder_ = number;
  } else {
    --holder.buffers;
    leave(place);
  }
  co_return buffer;
}

void BufferPool::leave(Holders::iterator place) {
  if (--place->second.users == 0) holders_.erase(place);
}

void BufferPool::end_hold(Semaphore* share, uint64_t number) {
  if (number != 0) {
    const auto place = holders_.find({share, number});
    KINTSUGI_ASSERT(place != holders_.end());
    --place->second.buffers;
    leave(place);
  }
  // Everybody may have more than before.
  for (auto& [key, holder] : holders_)
    holder.room.notify_one();
}

Buffer BufferPool::try_acquire() {
  if (!slots_.try_acquire()) return {};
  return lend();
}

Buffer BufferPool::lend() {
  std::byte* data = free_list_.back();
  free_list_.pop_back();
  // At once, which costs less than page by page, and gives pages that are neighbours, which disks take in fewer pieces.
  // Kernels before 5.14 refuse, and memory comes page by page.
  if (free_list_.size() < without_memory_) (void)madvise(data, buffer_bytes_, MADV_POPULATE_WRITE);
  without_memory_ = std::min(without_memory_, free_list_.size());
  unused_ = std::min(unused_, free_list_.size());
  ASAN_UNPOISON_MEMORY_REGION(data, buffer_bytes_);
  return Buffer(this, data, buffer_bytes_);
}

void BufferPool::give_back_idle() {
  // All of them, and not only those that were lent: a large page may have brought memory to a neighbour.
  for (size_t i = 0; without_memory_ < unused_ && i < unused_; ++i) {
    const int error = madvise(free_list_[i], buffer_bytes_, MADV_DONTNEED);
    KINTSUGI_ASSERT(error == 0);
  }
  without_memory_ = std::max(without_memory_, unused_);
  unused_ = free_list_.size();
}

void BufferPool::give_back(std::byte* data) {
  ASAN_POISON_MEMORY_REGION(data, buffer_bytes_);
  free_list_.push_back(data);
  slots_.release();
}

}  // namespace kintsugi::runtime
