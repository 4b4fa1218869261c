#include "client/lib/degraded/degraded_read.h"

#include "client/lib/degraded/plan_run.h"
#include "common/base/assert.h"
#include "common/base/crc32c.h"
#include "common/log/log.h"
#include "monitoring/sight/module.h"

namespace kintsugi::client {
namespace {

constexpr sight::Site kDegradedRead{"client.degraded_read", {"bytes"}, {"plans"}};

Status no_longer_needed() {
  return {Code::kCancelled, "no longer needed"};
}

}  // namespace

DegradedRead::DegradedRead(Resources& resources, Context context, LostRange range, TreeWishes wishes,
                           Sink& sink)
    : resources_(resources),
      context_(context),
      range_(std::move(range)),
      wishes_(std::move(wishes)),
      sink_(&sink),
      began_(resources.now()),
      next_(range_.begin),
      plans_(resources, range_) {
  KINTSUGI_ASSERT(range_.begin < range_.end && range_.end <= range_.chunk.length());
}

void DegradedRead::cancel() {
  sink_ = nullptr;
  if (running_ != nullptr) running_->fail(no_longer_needed());
}

asio::awaitable<Status> DegradedRead::run() {
  sight::Task module(context_, kDegradedRead, {static_cast<double>(range_.bytes())});
  context_ = module.context();
  Status status = co_await read();
  if (status.ok()) status = check_whole();
  report_.seconds = to_seconds(resources_.now() - began_);
  report_.bytes = next_ - range_.begin;
  module.output(0, report_.plans);
  co_return module.finish(
      status.with_context(fmt::format("chunk {}:{}", range_.stripe_id, range_.chunk.index())));
}

asio::awaitable<Status> DegradedRead::read() {
  Status status;
  while (report_.plans < kMaxPlans) {
    const TimePoint asked = resources_.now();
    proto::PlanReadResponse answer;
    const Status planned = co_await plans_.ask(context_, wishes_, next_, answer);
    report_.plan_seconds = to_seconds(resources_.now() - asked);
    if (!planned.ok()) co_return planned.with_context("planning a degraded read");
    if (sink_ == nullptr) {
      // The plan has to be finished all the same: it counts as running until then.
      plans_.finish(context_, answer.plan(), no_longer_needed(), {});
      break;
    }
    ++report_.plans;
    status = co_await follow(answer.plan());
    if (status.ok() || sink_ == nullptr) break;
    log::debug("{}", status.to_string());
    report_.trouble += (report_.trouble.empty() ? "" : "; ") + status.message();
    if (!plans_.exclude_culprit(status, answer.plan())) break;
  }
  if (sink_ == nullptr) co_return no_longer_needed();
  co_return status;
}

asio::awaitable<Status> DegradedRead::follow(const proto::SumPlan& plan) {
  proto::FinishReadRequest outcome;
  Status status = co_await follow(plan, outcome);
  if (status.ok() && next_ != range_.end) status = {Code::kInternal, "the plan did not cover the range"};
  if (!status.ok() && next_ == range_.end && sink_ != nullptr) {
    log::debug("after all bytes of a degraded read had come: {}", status.to_string());
    status = {};
  }
  proto::Timing& timing = *outcome.mutable_timing();
  timing.set_seconds(to_seconds(resources_.now() - began_));
  timing.set_plan_seconds(report_.plan_seconds);
  plans_.finish(context_, plan, status, std::move(outcome));
  co_return status;
}

asio::awaitable<Status> DegradedRead::follow(const proto::SumPlan& plan, proto::FinishReadRequest& outcome) {
  KINTSUGI_CO_ASSIGN(const partial_sum::SumRange range, plans_.check(plan, next_));
  KINTSUGI_CO_ASSIGN(const Lease lease, co_await reserve_sums(PlanRun::memory_bytes(plan, range)));
  if (sink_ == nullptr) co_return no_longer_needed();
  report_.shape = plan.shape();
  report_.slice_bytes = range.slice_bytes;
  report_.helpers = static_cast<uint32_t>(servers_of(plan).size());
  PlanRun run(resources_, plan, range, next_, range_.end, *this);
  running_ = &run;
  const Status status = co_await run.run(context_);
  running_ = nullptr;
  count(run, outcome);
  co_return status;
}

asio::awaitable<Result<Lease>> DegradedRead::reserve_sums(uint64_t bytes) {
  if (wishes_.window_bytes == 0)
    co_return co_await resources_.memory.reserve(Memory::buffers_for(bytes), resources_.now() + kMemoryLimit);
  if (bytes <= wishes_.window_bytes) co_return Lease{};
  co_return Status{Code::kLimitExceeded, fmt::format("the plan's slices take {} bytes of memory", bytes)};
}

asio::awaitable<Status> DegradedRead::write(uint64_t offset,
                                            std::span<const std::span<const std::byte>> bytes) {
  if (sink_ == nullptr) co_return no_longer_needed();
  KINTSUGI_ASSERT(offset == next_);
  if (next_ == range_.begin) report_.first_byte_seconds = to_seconds(resources_.now() - began_);
  uint64_t length = 0;
  for (const std::span<const std::byte> part : bytes) {
    if (range_.is_whole()) crc_ = crc32c_combine(crc_, crc32c(part), part.size());
    length += part.size();
  }
  KINTSUGI_CO_TRY(co_await sink_->write(offset, bytes));
  next_ += length;
  co_return Status{};
}

Status DegradedRead::check_whole() const {
  if (!range_.is_whole() || crc_ == range_.chunk.crc()) return {};
  return {Code::kCorrupt, "the rebuilt bytes differ from those that were written"};
}

void DegradedRead::count(const PlanRun& run, proto::FinishReadRequest& outcome) {
  const partial_sum::SumReceiver& receiver = run.receiver();
  report_.network_seconds += receiver.network_seconds();
  report_.compute_seconds += receiver.compute_seconds();
  report_.bytes_in += receiver.bytes_in();
  proto::Timing& timing = *outcome.mutable_timing();
  timing.set_network_seconds(receiver.network_seconds());
  timing.set_compute_seconds(receiver.compute_seconds());
  timing.set_bytes_in(receiver.bytes_in());
  timing.set_peak_bytes(receiver.peak_bytes());
  receiver.add_servers(*outcome.mutable_servers());
}

}  // namespace kintsugi::client
