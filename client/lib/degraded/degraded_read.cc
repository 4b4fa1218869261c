#include "client/lib/degraded/degraded_read.h"

#include <algorithm>

#include "client/lib/degraded/cell_order.h"
#include "common/base/crc32c.h"
#include "common/log/log.h"
#include "common/proto/chunk.pb.h"
#include "monitoring/sight/module.h"
#include "partial_sum/check_tree.h"
#include "partial_sum/sum_receiver.h"

namespace kintsugi::client {
namespace {

constexpr sight::Site kDegradedRead{"client.degraded_read", {"bytes"}, {"plans"}};
constexpr sight::Site kPlanRead{"client.plan_read", {"bytes"}};
constexpr Duration kFinishLimit = 5s;

asio::awaitable<void> send_outcome(Core& core, Context context, std::string request) {
  const Context limited = context.with_deadline(core.now() + kFinishLimit);
  (void)co_await core.rpc.call_raw(limited, core.options.metaserver, rpc::Method::kFinishRead,
                                   std::move(request));
}

using Nodes = google::protobuf::RepeatedPtrField<proto::RepairNode>;

void collect_servers(const Nodes& nodes, std::vector<uint64_t>& servers) {
  for (const proto::RepairNode& node : nodes) {
    servers.push_back(node.server_id());
    collect_servers(node.children(), servers);
  }
}

std::vector<uint64_t> servers_of(const proto::SumPlan& plan) {
  std::vector<uint64_t> servers;
  collect_servers(plan.children(), servers);
  return servers;
}

}  // namespace

LostRange lost_range(const proto::Stripe& stripe, uint32_t index, uint64_t begin, uint64_t end) {
  LostRange range{stripe.stripe_id(), stripe.chunks(static_cast<int>(index)), begin, end};
  for (const proto::ChunkPlacement& chunk : stripe.chunks())
    range.holders.emplace_back(chunk.server_id());
  return range;
}

/// One plan on its way.
class DegradedRead::Tree final : public partial_sum::SumSink {
 public:
  Tree(DegradedRead& read, const proto::SumPlan& plan, const partial_sum::SumRange& range,
       Duration stall_limit)
      : stall_limit_(stall_limit),
        request_(partial_sum::request_of(plan)),
        sink_(read),
        order_(range.sums, plan.cell_bytes(), read.next_, read.range_.end, sink_),
        receiver_(read.core_.runtime, read.core_.rpc, range, request_, plan.children(),
                  {.whole_cells = true}),
        watcher_(read.core_.runtime) {}

  asio::awaitable<Status> run(Context context) {
    watcher_.spawn(watch());
    Status status = co_await receiver_.run(context, *this);
    watcher_.request_stop();
    co_await watcher_.join();
    if (status.ok()) status = co_await order_.finish();
    co_return status;
  }

  void fail(Status why) { receiver_.fail(std::move(why)); }

  asio::awaitable<Status> put(uint64_t offset, std::span<const std::span<std::byte>> sums,
                              uint64_t) override {
    handing_on_ = true;
    Status status = co_await order_.put(offset, sums);
    handing_on_ = false;
    ++slices_;
    co_return status;
  }
  asio::awaitable<Status> idle() override { co_return Status{}; }

  const partial_sum::SumReceiver& receiver() const { return receiver_; }

 private:
  class ToRead final : public Sink {
   public:
    explicit ToRead(DegradedRead& read) : read_(read) {}
    asio::awaitable<Status> write(uint64_t offset,
                                  std::span<const std::span<const std::byte>> from) override {
      return read_.deliver(offset, from);
    }

   private:
    DegradedRead& read_;
  };

  /// Somebody far down may hang while his parents say that they live.
  asio::awaitable<void> watch() {
    while (true) {
      const uint64_t seen = slices_;
      const bool slept = co_await watcher_.sleep_for(stall_limit_);
      if (!slept) co_return;
      if (slices_ != seen || handing_on_) continue;
      fail({Code::kDeadlineExceeded, fmt::format("no slice came for {:.1f} s", to_seconds(stall_limit_))});
      co_return;
    }
  }

  const Duration stall_limit_;
  const proto::PartialSumRequest request_;
  ToRead sink_;
  CellOrder order_;
  partial_sum::SumReceiver receiver_;
  runtime::TaskGroup watcher_;
  uint64_t slices_ = 0;
  bool handing_on_ = false;
};

DegradedRead::DegradedRead(Core& core, Context context, LostRange range, TreeWishes wishes, Sink& sink)
    : core_(core),
      context_(context),
      range_(std::move(range)),
      wishes_(std::move(wishes)),
      sink_(&sink),
      began_(core.now()),
      next_(range_.begin) {
  KINTSUGI_ASSERT(range_.begin < range_.end && range_.end <= range_.chunk.length());
}

void DegradedRead::cancel() {
  sink_ = nullptr;
  if (running_ != nullptr) running_->fail({Code::kCancelled, "no longer needed"});
}

asio::awaitable<Status> DegradedRead::run() {
  sight::Module module(context_, kDegradedRead, {static_cast<double>(range_.end - range_.begin)});
  context_ = module.context();
  Status status = co_await read();
  if (status.ok()) status = check_whole();
  report_.seconds = to_seconds(core_.now() - began_);
  report_.bytes = next_ - range_.begin;
  module.output(0, report_.plans);
  co_return module.finish(
      status.with_context(fmt::format("chunk {}:{}", range_.stripe_id, range_.chunk.index())));
}

asio::awaitable<Status> DegradedRead::read() {
  Status status;
  while (report_.plans < kMaxPlans) {
    auto plan = co_await ask();
    if (!plan) co_return plan.error().with_context("planning a degraded read");
    if (sink_ == nullptr) {
      tell_outcome(*plan, {Code::kCancelled, "no longer needed"}, nullptr);
      break;
    }
    ++report_.plans;
    status = co_await follow(*plan);
    if (status.ok() || sink_ == nullptr) break;
    log::debug("{}", status.to_string());
    report_.trouble += (report_.trouble.empty() ? "" : "; ") + status.message();
    if (!exclude_culprit(status, *plan)) break;
  }
  if (sink_ == nullptr) co_return Status{Code::kCancelled, "no longer needed"};
  co_return status;
}

asio::awaitable<Result<proto::SumPlan>> DegradedRead::ask() {
  sight::Module module(context_, kPlanRead, {static_cast<double>(range_.end - next_)});
  proto::PlanReadRequest request;
  request.set_stripe_id(range_.stripe_id);
  request.set_index(range_.chunk.index());
  request.set_offset(next_);
  request.set_length(range_.end - next_);
  request.set_shape(wishes_.shape);
  request.set_slice_bytes(wishes_.slice_bytes);
  request.set_capability(range_.chunk.capability());
  for (const ServerId server : servers_to_exclude())
    request.add_exclude(server.value);
  const TimePoint asked = core_.now();
  const Context limited = module.context().with_deadline(asked + kPlanLimit);
  auto answer = co_await core_.rpc.call<proto::PlanReadResponse>(limited, core_.options.metaserver,
                                                                 rpc::Method::kPlanRead, request);
  report_.plan_seconds = to_seconds(core_.now() - asked);
  if (!answer) co_return module.finish(answer.error());
  co_return std::move(*answer->mutable_plan());
}

std::vector<ServerId> DegradedRead::servers_to_exclude() const {
  std::vector<ServerId> servers = excluded_;  // these first: what is too many is cut off
  const auto has = [](const std::vector<ServerId>& list, ServerId server) {
    return std::find(list.begin(), list.end(), server) != list.end();
  };
  for (const ServerId server : core_.health.avoided()) {
    if (has(range_.holders, server) && !has(servers, server)) servers.push_back(server);
  }
  if (servers.size() > kMaxExcluded) servers.resize(kMaxExcluded);
  return servers;
}

Status DegradedRead::check(const proto::SumPlan& plan, const partial_sum::SumRange& range) const {
  // Sub-chunks hold `sub` of every `cell` bytes of the chunk.
  const uint64_t sub = range.rows > 1 ? range.sub_cell_bytes() : 1, cell = sub * range.rows;
  const bool begins = range.offset % sub == 0 && range.offset / sub * cell <= next_;
  const bool ends = (range.offset + range.length + sub - 1) / sub * cell >= range_.end;
  if (plan.stripe_id() != range_.stripe_id || !begins || !ends)
    return {Code::kInternal, "the plan is for something else than was asked"};
  return partial_sum::check_children(range, plan.children(), range_.chunk.index());
}

asio::awaitable<Result<Lease>> DegradedRead::reserve_window(uint64_t bytes) {
  if (wishes_.window_bytes == 0) {
    const size_t buffers = (bytes + Memory::kBufferBytes - 1) / Memory::kBufferBytes;
    co_return co_await core_.memory.reserve(buffers, core_.now() + kMemoryLimit);
  }
  if (bytes <= wishes_.window_bytes) co_return Lease{};
  co_return Status{Code::kLimitExceeded, fmt::format("the plan's slices take {} bytes of memory", bytes)};
}

asio::awaitable<Status> DegradedRead::follow(const proto::SumPlan& plan) {
  std::unique_ptr<Tree> tree;
  Status status = co_await follow(plan, tree);
  if (status.ok() && next_ != range_.end) status = {Code::kInternal, "the plan did not cover the range"};
  if (!status.ok() && next_ == range_.end && sink_ != nullptr) {
    log::debug("after all bytes of a degraded read had come: {}", status.to_string());
    status = {};
  }
  running_ = nullptr;
  tell_outcome(plan, status, tree.get());
  co_return status;
}

asio::awaitable<Status> DegradedRead::follow(const proto::SumPlan& plan, std::unique_ptr<Tree>& tree) {
  const uint32_t rows = std::max<uint32_t>(plan.rows(), 1);
  const proto::PartialSumRequest request = partial_sum::request_of(plan);
  KINTSUGI_CO_ASSIGN(const partial_sum::SumRange range, partial_sum::SumRange::make(request, rows));
  KINTSUGI_CO_TRY(check(plan, range));
  // As SumReceiver says; unsliced it holds the whole range once.
  const auto children = static_cast<uint64_t>(plan.children_size());
  const uint64_t slices = range.sliced() ? children + 2 : 1;
  KINTSUGI_CO_ASSIGN(const Lease lease, co_await reserve_window(slices * range.slice_bytes * rows));
  if (sink_ == nullptr) co_return Status{Code::kCancelled, "no longer needed"};
  report_.shape = plan.shape();
  report_.slice_bytes = range.slice_bytes;
  report_.helpers = static_cast<uint32_t>(servers_of(plan).size());
  const double first_slice =
      static_cast<double>(range.slice_bytes * rows * report_.helpers) / kSlowestBytesPerSecond;
  const Duration stall_limit =
      kStallLimit + std::chrono::duration_cast<Duration>(std::chrono::duration<double>(first_slice));
  // In memory of its own because it is large for a coroutine's frame.
  tree = std::make_unique<Tree>(*this, plan, range, stall_limit);
  running_ = tree.get();
  co_return co_await tree->run(context_);
}

asio::awaitable<Status> DegradedRead::deliver(uint64_t offset,
                                              std::span<const std::span<const std::byte>> bytes) {
  if (sink_ == nullptr) co_return Status{Code::kCancelled, "no longer needed"};
  KINTSUGI_ASSERT(offset == next_);
  if (next_ == range_.begin) report_.first_byte_seconds = to_seconds(core_.now() - began_);
  const bool whole = range_.begin == 0 && range_.end == range_.chunk.length();
  uint64_t length = 0;
  for (const std::span<const std::byte> part : bytes) {
    if (whole) crc_ = crc32c_combine(crc_, crc32c(part), part.size());
    length += part.size();
  }
  KINTSUGI_CO_TRY(co_await sink_->write(offset, bytes));
  next_ += length;
  co_return Status{};
}

Status DegradedRead::check_whole() const {
  if (range_.begin != 0 || range_.end != range_.chunk.length() || crc_ == range_.chunk.crc()) return {};
  return {Code::kCorrupt, "what was rebuilt differs from what was written"};
}

bool DegradedRead::exclude_culprit(const Status& failure, const proto::SumPlan& plan) {
  const ServerId culprit = failure.culprit().server;
  const auto servers = servers_of(plan);
  if (!culprit || std::ranges::find(servers, culprit.value) == servers.end()) return false;
  excluded_.push_back(culprit);
  core_.health.failed(culprit);
  return true;
}

void DegradedRead::tell_outcome(const proto::SumPlan& plan, const Status& status, const Tree* tree) {
  proto::FinishReadRequest request;
  request.set_repair_id(plan.repair_id());
  request.set_ok(status.ok());
  if (!status.ok()) request.set_detail(status.to_string());
  request.set_culprit(status.culprit().server.value);
  proto::Timing& timing = *request.mutable_timing();
  timing.set_seconds(to_seconds(core_.now() - began_));
  timing.set_plan_seconds(report_.plan_seconds);
  if (tree != nullptr) {
    const partial_sum::SumReceiver& receiver = tree->receiver();
    timing.set_network_seconds(receiver.network_seconds());
    timing.set_compute_seconds(receiver.compute_seconds());
    timing.set_bytes_in(receiver.bytes_in());
    timing.set_peak_bytes(receiver.peak_bytes());
    receiver.add_servers(*request.mutable_servers());
    report_.network_seconds += receiver.network_seconds();
    report_.compute_seconds += receiver.compute_seconds();
    report_.bytes_in += receiver.bytes_in();
  }
  core_.background.spawn(send_outcome(core_, context_, request.SerializeAsString()));
}

}  // namespace kintsugi::client
