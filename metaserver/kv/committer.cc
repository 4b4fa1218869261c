#include "metaserver/kv/committer.h"

#include <boost/asio/post.hpp>

namespace kintsugi::metaserver {

Committer::Committer(asio::any_io_executor executor, std::function<Status(const Batches&)> write, Done done)
    : executor_(std::move(executor)),
      write_(std::move(write)),
      done_(std::make_shared<Done>(std::move(done))),
      thread_([this] { run(); }) {}

Committer::~Committer() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  submitted_.notify_one();
  thread_.join();
  *done_ = nullptr;
}

void Committer::submit(std::shared_ptr<const PendingBatch> batch) {
  bool wake = false;
  {
    std::lock_guard lock(mutex_);
    wake = queue_.empty();
    queue_.push_back(std::move(batch));
  }
  if (wake) submitted_.notify_one();
}

void Committer::run() {
  Status status;
  while (true) {
    Batches batches;
    {
      std::unique_lock lock(mutex_);
      submitted_.wait(lock, [&] { return stop_ || !queue_.empty(); });
      if (stop_) return;
      batches.swap(queue_);
    }
    const uint64_t last = batches.back()->sequence;
    // A gap must not become durable: after a failure later batches fail as well.
    if (status.ok()) status = write_(batches);
    // The copy of `done` outlives this object; the destructor, on the executor's thread, empties what it points to.
    asio::post(executor_, [done = done_, last, status] {
      if (*done) (*done)(last, status);
    });
  }
}

}  // namespace kintsugi::metaserver
