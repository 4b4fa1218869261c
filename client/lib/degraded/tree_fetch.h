/// A range of one lost chunk on its way into buffers, by a tree.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "client/lib/degraded/degraded_read.h"
#include "common/runtime/event.h"

namespace kintsugi::client {

/// Shared between who waits for it and its own coroutine, like ChunkFetch: once cancelled it touches neither
/// the buffers nor `changed` any more, though the tree may take a while to end.
class TreeFetch {
 public:
  /// `into`: where the range goes, in order; as long as the range together. `window_bytes` were reserved for
  /// sums. `changed` is notified when it is done.
  TreeFetch(Core& core, Context context, LostRange range, uint64_t window_bytes,
            std::vector<std::span<std::byte>> into, runtime::Event& changed);

  /// Its work; spawn on core.background.
  static asio::awaitable<void> run(std::shared_ptr<TreeFetch> self);

  void cancel();
  bool done() const { return status_.has_value(); }
  bool ok() const { return done() && status_->ok(); }
  const Status& status() const { return *status_; }
  TimePoint started() const { return started_; }
  uint64_t bytes_in() const { return read_.report().bytes_in; }

 private:
  class Into final : public Sink {
   public:
    explicit Into(std::vector<std::span<std::byte>> into) : into_(std::move(into)) {}
    asio::awaitable<Status> write(uint64_t offset, std::span<const std::span<const std::byte>> from) override;

   private:
    std::vector<std::span<std::byte>> into_;
    size_t at_ = 0, filled_ = 0;  // of into_[at_]
  };

  runtime::Event* changed_;
  const TimePoint started_;
  Into into_;
  DegradedRead read_;
  std::optional<Status> status_;
};

}  // namespace kintsugi::client
