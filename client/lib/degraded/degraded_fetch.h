/// Reads a range of a lost chunk into buffers that may have to go back before it is done.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "client/lib/degraded/degraded_read.h"
#include "common/runtime/event.h"

namespace kintsugi::client {

/// A DegradedRead shared between its waiter and its own coroutine, like ChunkFetch: once cancelled it touches neither
/// the buffers nor `changed` any more, though the tree may take a while to end.
class DegradedFetch {
 public:
  /// The range goes to `into`, in order; together they are as long as the range. `changed` is notified when it is done.
  DegradedFetch(Resources& resources, Context context, LostRange range, TreeWishes wishes,
                std::vector<std::span<std::byte>> into, runtime::Event& changed);

  /// The fetch's work, to be spawned once on resources.background.
  static asio::awaitable<void> run(std::shared_ptr<DegradedFetch> self);

  void cancel();
  bool done() const { return status_.has_value(); }
  bool ok() const { return done() && status_->ok(); }
  const Status& status() const { return *status_; }
  TimePoint started() const { return started_; }

 private:
  runtime::Event* changed_;  ///< null once the fetch is cancelled
  const TimePoint started_;
  MemorySink sink_;
  DegradedRead read_;
  std::optional<Status> status_;
};

}  // namespace kintsugi::client
