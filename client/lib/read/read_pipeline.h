/// Reads ahead, as far as memory allows, and hands over what was read in order.
#pragma once

#include <deque>
#include <memory>
#include <optional>

#include "client/lib/resources.h"
#include "common/runtime/context.h"
#include "common/runtime/span.h"
#include "common/runtime/task_group.h"

namespace kintsugi::client {

/// A `Read` has buffers_needed(), and run(Lease) with so many, after which it holds the bytes.
///
/// Use once. Memory: each read's lease. Only a pipeline that holds nothing waits for memory, so that pipelines which
/// hold some and want more cannot lock each other out.
template <typename Read>
class ReadPipeline {
 public:
  struct InFlight {
    std::unique_ptr<Read> read;
    std::optional<Status> result;  ///< outcome of the read, once there is one
  };

  /// Plans the reads of a pipeline and takes what was read.
  class User {
   public:
    virtual ~User() = default;
    /// Puts the next one into `next`, which is left empty after the last one.
    virtual asio::awaitable<Status> plan_next(std::unique_ptr<Read>& next) = 0;
    /// Takes them in the order of plan_next(), also one that failed. Its bytes are there until the return.
    virtual asio::awaitable<Status> take(InFlight& done) = 0;
  };

  ReadPipeline(Resources& resources, size_t max_in_flight)
      : resources_(resources),
        max_in_flight_(max_in_flight),
        changed_(resources.runtime),
        tasks_(resources.runtime) {}

  /// Ok: all was planned, read and taken. Otherwise the first error of the user, after which nothing of the pipeline
  /// runs any more.
  asio::awaitable<Status> run(Context context, User& user) {
    context_ = context;
    const Status status = co_await read_all(user);
    // Reads that nobody will take are waited for: each is bounded by its own deadlines.
    const runtime::Wait wait(context_, runtime::WaitKind::kJoin);
    co_await tasks_.join();
    in_flight_.clear();
    co_return status;
  }

 private:
  asio::awaitable<Status> read_all(User& user) {
    while (true) {
      KINTSUGI_CO_TRY(co_await start_ahead(user));
      if (in_flight_.empty()) co_return Status{};
      InFlight& front = *in_flight_.front();
      while (!front.result) {
        const runtime::Wait wait(context_, runtime::WaitKind::kJoin, 0, 0, 1);
        co_await changed_.wait();
      }
      runtime::advance(context_, 1);
      KINTSUGI_CO_TRY(co_await user.take(front));
      in_flight_.pop_front();
    }
  }

  /// Plans and starts reads as long as there is room for them.
  asio::awaitable<Status> start_ahead(User& user) {
    while (in_flight_.size() < max_in_flight_) {
      if (!planned_) KINTSUGI_CO_TRY(co_await user.plan_next(planned_));
      if (!planned_) break;  // that was the last one
      Lease lease = resources_.memory.try_reserve(planned_->buffers_needed());
      if (lease.count() == 0) {
        if (!in_flight_.empty()) break;  // memory has to come back first
        const runtime::Wait wait(context_, runtime::WaitKind::kResource,
                                 runtime::named_target(context_, "memory"));
        KINTSUGI_CO_ASSIGN(lease, co_await resources_.memory.reserve(planned_->buffers_needed(),
                                                                     resources_.now() + kMemoryLimit));
      }
      in_flight_.push_back(std::make_unique<InFlight>(std::move(planned_)));
      tasks_.spawn(read(in_flight_.back().get(), std::move(lease)));
    }
    co_return Status{};
  }

  asio::awaitable<void> read(InFlight* one, Lease lease) {
    one->result = co_await one->read->run(std::move(lease));
    changed_.notify_all();
  }

  Resources& resources_;
  const size_t max_in_flight_;
  Context context_;
  std::unique_ptr<Read> planned_;  ///< the read that begins next
  std::deque<std::unique_ptr<InFlight>> in_flight_;
  runtime::Event changed_;
  runtime::TaskGroup tasks_;
};

}  // namespace kintsugi::client
