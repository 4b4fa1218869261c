#include "partial_sum/sum_receiver.h"

#include "common/runtime/span.h"
#include "partial_sum/check_tree.h"

namespace kintsugi::partial_sum {
namespace {

WindowSize choose_size(const SumRange& range, const Children& children, const ReceiverOptions& options) {
  WindowSize::Node node;
  node.children = children.size();
  node.own = options.own != nullptr;
  node.whole_cells = options.whole_cells && range.rows > 1;
  node.keep_all = options.staggered;
  for (const proto::RepairNode& child : children)
    node.masked = node.masked || (child.slice_period() != 0 && range.mask.all());
  node.plain_child = children.size() == 1 && children[0].combine().empty();
  return WindowSize::choose(range, node);
}

/// Masks stand at the children of a root only: below it everybody carries what the tree carries.
std::vector<SliceMask> masks_of(const SumRange& range, const Children& children, bool own) {
  std::vector<SliceMask> masks;
  for (const proto::RepairNode& child : children) {
    masks.push_back(range.mask.all() ? SliceMask{child.slice_period(), child.slice_mask()} : SliceMask{});
  }
  if (own) masks.emplace_back();
  return masks;
}

/// The common request with the child's subtree, and with its mask where the child has one.
proto::PartialSumRequest request_for(const proto::RepairNode& child, const proto::PartialSumRequest& common) {
  proto::PartialSumRequest request = common;
  *request.mutable_node() = child;
  if (child.slice_period() != 0) {
    request.set_slice_period(child.slice_period());
    request.set_slice_mask(child.slice_mask());
  }
  return request;
}

}  // namespace

SumReceiver::SumReceiver(const runtime::Runtime& runtime, rpc::Client& client, SumRange range,
                         const proto::PartialSumRequest& request, const Children& children,
                         ReceiverOptions options)
    : runtime_(runtime),
      options_(options),
      window_(runtime, range, choose_size(range, children, options),
              masks_of(range, children, options.own != nullptr)),
      ended_(runtime),
      tasks_(runtime) {
  for (const proto::RepairNode& child : children) {
    children_.push_back(
        std::make_unique<ChildSum>(runtime_, client, request_for(child, request),
                                   ChildSum::Place{window_, children_.size(), options_.pace}));
  }
}

asio::awaitable<Status> SumReceiver::run(Context context, SumSink& sink) {
  window_.set_consumer(context);
  // Children first: the whole tree is asked in one trip down before anybody reads.
  if (options_.staggered) {
    spawn(run_staggered(context));
  } else {
    for (auto& child : children_)
      spawn(run_child(context, *child));
  }
  if (options_.own != nullptr) spawn(run_own(context));
  Status status = co_await consume(context, sink);
  if (!status.ok()) fail(status);
  const runtime::Wait wait(context, runtime::WaitKind::kJoin);
  co_await tasks_.join();
  co_return window_.failure();
}

void SumReceiver::fail(Status why) {
  window_.fail(std::move(why));
  for (auto& child : children_)
    child->close();
}

void SumReceiver::spawn(asio::awaitable<void> task) {
  ++running_;
  tasks_.spawn(counted(std::move(task)));
}

asio::awaitable<void> SumReceiver::counted(asio::awaitable<void> task) {
  co_await std::move(task);
  --running_;
  ended_.notify_all();
}

asio::awaitable<void> SumReceiver::run_child(Context context, ChildSum& child) {
  Status status = co_await child.run(context);
  if (!status.ok()) fail(std::move(status));
}

asio::awaitable<void> SumReceiver::run_staggered(Context context) {
  for (auto& child : children_) {
    if (window_.failure().ok()) co_await run_child(context, *child);
  }
}

asio::awaitable<void> SumReceiver::run_own(Context context) {
  Status status = co_await options_.own->contribute(context, window_, children_.size());
  if (!status.ok()) fail(std::move(status));
}

asio::awaitable<Status> SumReceiver::consume(Context context, SumSink& sink) {
  std::vector<std::span<std::byte>> sums;
  for (size_t unit = 0; unit < window_.units(); ++unit) {
    while (true) {
      {
        const runtime::Wait wait(context, runtime::WaitKind::kJoin);
        auto complete = co_await window_.wait_complete(unit, runtime_.clock.now() + kTreeIdleInterval);
        if (!complete) co_return complete.error();
        if (*complete) break;
      }
      KINTSUGI_CO_TRY(co_await sink.idle());
    }
    const uint64_t nonzero = window_.nonzero_bytes(unit);
    const auto view = window_.complete(unit);
    sums.assign(view.begin(), view.end());
    KINTSUGI_CO_TRY(co_await sink.put(window_.range().offset + window_.begin_of(unit), sums, nonzero));
    window_.release(unit);
    runtime::advance(context, 1);
  }
  // Now only the children's end frames, which hold their timings, are still to come. A child that stores a chunk of its
  // own may take long until it sends one.
  while (running_ > 0) {
    runtime::Wait wait(context, runtime::WaitKind::kJoin);
    const bool ended = co_await ended_.wait_until(runtime_.clock.now() + kTreeIdleInterval);
    wait.stop();
    if (!ended && window_.failure().ok()) KINTSUGI_CO_TRY(co_await sink.idle());
  }
  co_return window_.failure();
}

double SumReceiver::compute_seconds() const {
  double sum = 0;
  for (const auto& child : children_)
    sum += child->compute_seconds();
  return sum;
}

double SumReceiver::network_seconds() const {
  double most = 0;
  for (const auto& child : children_)
    most = std::max(most, child->network_seconds());
  return most;
}

uint64_t SumReceiver::bytes_in() const {
  uint64_t sum = 0;
  for (const auto& child : children_)
    sum += child->bytes_in();
  return sum;
}

void SumReceiver::add_servers(google::protobuf::RepeatedPtrField<proto::ServerTiming>& servers) const {
  for (const auto& child : children_)
    servers.MergeFrom(child->done().servers());
}

void add_up(const google::protobuf::RepeatedPtrField<proto::ServerTiming>& servers, proto::Timing& timing) {
  if (servers.empty()) return;
  timing = servers[0].timing();
  for (int i = 1; i < servers.size(); ++i) {
    const proto::Timing& other = servers[i].timing();
    timing.set_bytes_in(timing.bytes_in() + other.bytes_in());
    timing.set_bytes_out(timing.bytes_out() + other.bytes_out());
    timing.set_disk_bytes(timing.disk_bytes() + other.disk_bytes());
    timing.set_peak_bytes(std::max(timing.peak_bytes(), other.peak_bytes()));
    // The helpers read at the same time: the slowest one is what the repair saw.
    timing.set_read_seconds(std::max(timing.read_seconds(), other.read_seconds()));
  }
}

proto::PartialSumRequest request_of(const proto::SumPlan& plan) {
  proto::PartialSumRequest request;
  request.set_stripe_id(plan.stripe_id());
  request.set_repair_id(plan.repair_id());
  request.set_offset(plan.offset());
  request.set_length(plan.length());
  request.set_slice_bytes(plan.slice_bytes());
  request.set_rows(plan.rows());
  request.set_cell_bytes(plan.cell_bytes());
  request.set_user(true);
  return request;
}

}  // namespace kintsugi::partial_sum
