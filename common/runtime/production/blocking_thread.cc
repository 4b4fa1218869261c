#include "common/runtime/production/blocking_thread.h"

#include <cerrno>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <thread>

#include <boost/asio/post.hpp>

#include "common/runtime/resumption.h"

namespace kintsugi::runtime {

struct BlockingThread::Shared {
  explicit Shared(asio::io_context& io) : io(io) {}

  /// Guards the members below, and makes sure that `io` is used only while `ended` is false.
  std::mutex mutex;
  std::condition_variable wake;
  std::deque<std::pair<uint64_t, std::function<int()>>> calls;
  bool ended = false;
  asio::io_context& io;

  // Used on the loop's thread only: a coroutine is resumed, and destroyed, there.
  std::map<uint64_t, Resumption<int>> callers;
  uint64_t last_number = 0;
};

BlockingThread::BlockingThread(asio::io_context& io) : shared_(std::make_shared<Shared>(io)) {}

BlockingThread::~BlockingThread() {
  shut_down();
}

asio::awaitable<int> BlockingThread::run(std::function<int()> call) {
  if (shared_->ended) co_return -ECANCELED;
  if (!started_) std::thread(serve, shared_).detach();
  started_ = true;
  co_return co_await suspend<int>([shared = shared_, call = std::move(call)](Resumption<int> caller) mutable {
    const uint64_t number = ++shared->last_number;
    shared->callers.emplace(number, std::move(caller));
    const std::lock_guard lock(shared->mutex);
    shared->calls.emplace_back(number, std::move(call));
    shared->wake.notify_one();
  });
}

void BlockingThread::serve(std::shared_ptr<Shared> shared) {
  std::unique_lock lock(shared->mutex);
  while (true) {
    shared->wake.wait(lock, [&] { return shared->ended || !shared->calls.empty(); });
    if (shared->ended) return;
    const auto [number, call] = std::move(shared->calls.front());
    shared->calls.pop_front();
    lock.unlock();
    const int result = call();
    lock.lock();
    if (shared->ended) return;
    asio::post(shared->io, [shared, number = number, result] {
      const auto caller = shared->callers.extract(number);
      if (caller) caller.mapped().resume(result);
    });
  }
}

void BlockingThread::shut_down() {
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->ended = true;
    shared_->calls.clear();
    shared_->wake.notify_one();
  }
  shared_->callers.clear();
}

}  // namespace kintsugi::runtime
