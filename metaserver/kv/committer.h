/// Group commit: the thread that turns many batches into few syncs.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include <boost/asio/any_io_executor.hpp>

#include "common/base/status.h"
#include "metaserver/kv/pending_writes.h"

namespace kintsugi::metaserver {

/// Takes all batches that were submitted while it wrote the last ones, and writes them together. After a failed write
/// nothing more is written.
class Committer {
 public:
  using Batches = std::vector<std::shared_ptr<const PendingBatch>>;
  /// `write` runs on the committer's thread and returns once its batches are durable. `done(last sequence, status)`
  /// runs on `executor`, never after the destructor.
  Committer(asio::any_io_executor executor, std::function<Status(const Batches&)> write,
            std::function<void(uint64_t, const Status&)> done);
  /// Finishes the write in progress and forgets the rest.
  ~Committer();

  void submit(std::shared_ptr<const PendingBatch> batch);

 private:
  using Done = std::function<void(uint64_t, const Status&)>;
  void run();

  asio::any_io_executor executor_;
  std::function<Status(const Batches&)> write_;
  std::shared_ptr<Done> done_;  ///< the destructor empties it, on the executor's thread

  std::mutex mutex_;
  std::condition_variable submitted_;
  Batches queue_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace kintsugi::metaserver
