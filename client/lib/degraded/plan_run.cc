#include "client/lib/degraded/plan_run.h"

#include "client/lib/degraded/read_plans.h"

namespace kintsugi::client {
namespace {

Duration stall_limit(const proto::SumPlan& plan, const partial_sum::SumRange& range) {
  const uint64_t bytes = range.slice_bytes * range.sums * servers_of(plan).size();
  const double first_slice = static_cast<double>(bytes) / PlanRun::kSlowestBytesPerSecond;
  return PlanRun::kStallLimit +
         std::chrono::duration_cast<Duration>(std::chrono::duration<double>(first_slice));
}

}  // namespace

uint64_t PlanRun::memory_bytes(const proto::SumPlan& plan, const partial_sum::SumRange& range) {
  // A SumReceiver holds this much (see its header); without slices it holds the whole range once.
  const uint64_t slices = range.sliced() ? static_cast<uint64_t>(plan.children_size()) + 2 : 1;
  return slices * range.slice_bytes * range.sums;
}

PlanRun::PlanRun(Resources& resources, const proto::SumPlan& plan, const partial_sum::SumRange& range,
                 uint64_t begin, uint64_t end, Sink& sink)
    : stall_limit_(stall_limit(plan, range)),
      request_(partial_sum::request_of(plan)),
      order_(range.sums, plan.cell_bytes(), begin, end, sink),
      receiver_(resources.runtime, resources.rpc, range, request_, plan.children(), {.whole_cells = true}),
      watcher_(resources.runtime) {}

asio::awaitable<Status> PlanRun::run(Context context) {
  watcher_.spawn(watch());
  Status status = co_await receiver_.run(context, order_);
  co_await watcher_.stop();
  if (status.ok()) status = co_await order_.finish();
  co_return status;
}

/// Somebody far down may hang while its parents say that they live.
asio::awaitable<void> PlanRun::watch() {
  while (true) {
    const uint64_t seen = order_.handed_on();
    if (!co_await watcher_.sleep_for(stall_limit_)) co_return;
    if (order_.handed_on() != seen || order_.is_handing_on()) continue;
    fail({Code::kDeadlineExceeded, fmt::format("no slice came for {:.1f} s", to_seconds(stall_limit_))});
    co_return;
  }
}

}  // namespace kintsugi::client
