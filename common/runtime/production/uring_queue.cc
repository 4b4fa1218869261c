#include "common/runtime/production/uring_queue.h"

#include <cerrno>
#include <cstring>
#include <utility>

#include <boost/asio/post.hpp>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/base/assert.h"
#include "common/log/log.h"

namespace kintsugi::runtime {

UringQueue::UringQueue(asio::io_context& io, Limits limits) : io_(io), event_(io), slots_(limits.in_flight) {
  for (uint32_t slot = limits.in_flight; slot-- > 0;)
    free_slots_.push_back(slot);
  ring_ready_ = set_up_ring(limits);
}

std::shared_ptr<UringQueue> UringQueue::create(asio::io_context& io, Limits limits) {
  std::shared_ptr<UringQueue> queue(new UringQueue(io, limits));
  if (queue->ring_ready_) queue->watch();
  return queue;
}

UringQueue::~UringQueue() {
  shut_down();
  if (ring_ready_) io_uring_queue_exit(&ring_);
}

bool UringQueue::set_up_ring(Limits limits) {
  // Cooperative: completions are posted at our next system call instead of interrupting our computations.
  io_uring_params params{};
  params.flags = IORING_SETUP_COOP_TASKRUN;
  int error = io_uring_queue_init_params(limits.in_flight, &ring_, &params);
  if (error == -EINVAL) {  // kernels before Linux 5.19 do not know the flag
    params = {};
    error = io_uring_queue_init_params(limits.in_flight, &ring_, &params);
  }
  if (error < 0) {
    log::warning("no io_uring ({}): disk calls block the event loop", std::strerror(-error));
    return false;
  }
  int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  KINTSUGI_ASSERT(fd >= 0);
  event_.assign(fd);
  error = io_uring_register_eventfd(&ring_, fd);
  KINTSUGI_ASSERT(error == 0);
  unsigned threads[2] = {limits.kernel_threads, 0};
  // Kernels before 5.15 know no such limit: there the default stays.
  if (limits.kernel_threads > 0) (void)io_uring_register_iowq_max_workers(&ring_, threads);
  return true;
}

asio::awaitable<int> UringQueue::run(DiskCall call) {
  return suspend<int>([this, call](Resumption<int> caller) { enqueue(call, std::move(caller)); });
}

void UringQueue::close_later(int fd) {
  if (shut_down_) {
    ::close(fd);
    return;
  }
  enqueue({.kind = DiskCall::Kind::kClose, .fd = fd}, {});
}

void UringQueue::enqueue(DiskCall call, Resumption<int> caller) {
  waiting_.push_back({call, std::move(caller)});
  schedule_flush();
}

void UringQueue::schedule_flush() {
  if (flush_scheduled_) return;
  flush_scheduled_ = true;
  // Coroutines continue inside flush() and reap(), and may drop the last file: the handlers hold the queue.
  asio::post(io_, [self = shared_from_this()] {
    self->flush_scheduled_ = false;
    self->flush();
  });
}

void UringQueue::flush() {
  if (shut_down_ || !ring_ready_) {
    for (size_t count = waiting_.size(); count > 0; --count) {
      Request request = std::move(waiting_.front());
      waiting_.pop_front();
      int result = shut_down_ ? -ECANCELED : run_blocking(request.call);
      if (request.caller) request.caller.resume(result);
    }
    return;
  }
  while (!waiting_.empty() && !free_slots_.empty()) {
    uint32_t slot = free_slots_.back();
    free_slots_.pop_back();
    slots_[slot] = std::move(waiting_.front());
    waiting_.pop_front();
    io_uring_sqe* sqe = io_uring_get_sqe(&ring_);
    KINTSUGI_ASSERT(sqe);  // the ring has as many entries as we have slots
    prepare(sqe, slots_[slot].call);
    sqe->user_data = slot;
  }
  submit();
  reap();
}

void UringQueue::submit() {
  if (io_uring_sq_ready(&ring_) == 0) return;
  int submitted = io_uring_submit(&ring_);
  if (submitted >= 0) {
    // The kernel stops at an entry that it refuses outright: what stands behind it is for the next turn.
    if (io_uring_sq_ready(&ring_) > 0 && !shut_down_) schedule_flush();
    return;
  }
  // Short of memory or completion space for now; the entries stay in the ring for the next turn.
  KINTSUGI_ASSERT(submitted == -EAGAIN || submitted == -EBUSY || submitted == -EINTR || submitted == -ENOMEM);
  schedule_flush();
}

void UringQueue::reap() {
  // One at a time: the coroutine that continues may ask for more.
  io_uring_cqe* completion = nullptr;
  while (!shut_down_ && io_uring_peek_cqe(&ring_, &completion) == 0) {
    auto slot = static_cast<uint32_t>(completion->user_data);
    int result = completion->res;
    io_uring_cqe_seen(&ring_, completion);
    finish(slot, result);
  }
  if (!waiting_.empty()) schedule_flush();
}

void UringQueue::finish(uint32_t slot, int result) {
  Resumption<int> caller = std::move(slots_[slot].caller);
  free_slots_.push_back(slot);
  if (caller) caller.resume(result);
}

void UringQueue::watch() {
  event_.async_read_some(asio::buffer(&event_count_, sizeof event_count_),
                         [self = shared_from_this()](boost::system::error_code error, size_t) {
                           if (error) return;
                           self->watch();
                           self->reap();
                         });
}

void UringQueue::shut_down() {
  if (shut_down_) return;
  shut_down_ = true;
  boost::system::error_code ignored;
  event_.close(ignored);
  // The kernel may still write into buffers that die after us.
  while (ring_ready_ && free_slots_.size() < slots_.size()) {
    // Submits each time: an entry that the kernel refused for a moment occupies its slot, but the kernel does not
    // have it yet.
    submit();
    io_uring_cqe* completion = nullptr;
    if (io_uring_wait_cqe(&ring_, &completion) < 0) continue;
    auto slot = static_cast<uint32_t>(completion->user_data);
    io_uring_cqe_seen(&ring_, completion);
    slots_[slot].caller = {};
    free_slots_.push_back(slot);
  }
  for (Request& request : std::exchange(waiting_, {})) {
    if (request.call.kind == DiskCall::Kind::kClose) ::close(request.call.fd);
  }
}

}  // namespace kintsugi::runtime
