/// One plan of a degraded read on its way, with this client as the root of the tree.
#pragma once

#include "client/lib/degraded/cell_order.h"
#include "client/lib/io.h"
#include "client/lib/resources.h"
#include "common/base/status.h"
#include "common/proto/chunk.pb.h"
#include "common/proto/repair.pb.h"
#include "common/runtime/context.h"
#include "common/runtime/task_group.h"
#include "partial_sum/sum_range.h"
#include "partial_sum/sum_receiver.h"

namespace kintsugi::client {

/// Use once.
class PlanRun {
 public:
  /// A tree that hands on nothing for so long is given up: this, and the time that its first slice takes to come
  /// through all helpers of a chain at kSlowestBytesPerSecond.
  static constexpr Duration kStallLimit = std::chrono::seconds(5);
  static constexpr double kSlowestBytesPerSecond = 10e6;

  /// The bytes [begin, end) of the chunk go to `sink`. `range` is what the plan sums up. Plan and sink outlive this.
  PlanRun(Resources& resources, const proto::SumPlan& plan, const partial_sum::SumRange& range,
          uint64_t begin, uint64_t end, Sink& sink);

  /// Memory that the sums take at most.
  static uint64_t memory_bytes(const proto::SumPlan& plan, const partial_sum::SumRange& range);

  /// Ok: all bytes went to the sink. Otherwise the first error, which blames a server if one failed.
  asio::awaitable<Status> run(Context context);
  /// Makes run() end soon with `why`.
  void fail(Status why) { receiver_.fail(std::move(why)); }

  const partial_sum::SumReceiver& receiver() const { return receiver_; }

 private:
  asio::awaitable<void> watch();

  const Duration stall_limit_;
  const proto::PartialSumRequest request_;  ///< the request that each child receives
  CellOrder order_;
  partial_sum::SumReceiver receiver_;
  runtime::TaskGroup watcher_;
};

}  // namespace kintsugi::client
