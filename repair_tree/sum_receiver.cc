#include "repair_tree/sum_receiver.h"

namespace kintsugi::repair_tree {

SumReceiver::SumReceiver(const runtime::Runtime& runtime, rpc::Client& client, SumRange range,
                         const proto::PartialSumRequest& request, const Children& children,
                         SumContributor* own)
    : runtime_(runtime),
      own_(own),
      window_(runtime, range, children.size() + (own == nullptr ? 0 : 1)),
      tasks_(runtime) {
  for (const proto::RepairNode& child : children) {
    children_.push_back(std::make_unique<ChildSum>(runtime_, client, window_, request, child));
  }
}

asio::awaitable<Status> SumReceiver::run(Context context, SumSink& sink) {
  // Children first: the whole tree is asked in one trip down before anybody reads.
  for (auto& child : children_)
    tasks_.spawn(run_child(context, *child));
  if (own_ != nullptr) tasks_.spawn(run_own(context));
  Status status = co_await consume(sink);
  if (!status.ok()) fail(status);
  co_await tasks_.join();
  co_return window_.failure();
}

void SumReceiver::fail(Status why) {
  window_.fail(std::move(why));
  for (auto& child : children_)
    child->close();
}

asio::awaitable<void> SumReceiver::run_child(Context context, ChildSum& child) {
  Status status = co_await child.run(context);
  if (!status.ok()) fail(std::move(status));
}

asio::awaitable<void> SumReceiver::run_own(Context context) {
  Status status = co_await own_->contribute(context, window_);
  if (!status.ok()) fail(std::move(status));
}

asio::awaitable<Status> SumReceiver::consume(SumSink& sink) {
  const SumRange& range = window_.range();
  std::vector<std::span<std::byte>> sums(range.sums);
  for (size_t slice = 0; slice < range.slices(); ++slice) {
    while (true) {
      auto complete = co_await window_.wait_complete(slice, runtime_.clock.now() + kTreeIdleInterval);
      if (!complete) co_return complete.error();
      if (*complete) break;
      KINTSUGI_CO_TRY(co_await sink.idle());
    }
    for (uint32_t sum = 0; sum < range.sums; ++sum)
      sums[sum] = window_.sum(slice, sum);
    KINTSUGI_CO_TRY(
        co_await sink.put(range.offset + range.begin_of(slice), sums, window_.nonzero_bytes(slice)));
    window_.release(slice);
  }
  // The children's end frames, with their timings.
  co_await tasks_.join();
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

proto::PartialSumRequest request_of(const proto::SumPlan& plan) {
  proto::PartialSumRequest request;
  request.set_stripe_id(plan.stripe_id());
  request.set_repair_id(plan.repair_id());
  request.set_offset(plan.offset());
  request.set_length(plan.length());
  request.set_slice_bytes(plan.slice_bytes());
  request.set_rows(plan.rows());
  request.set_cell_bytes(plan.cell_bytes());
  return request;
}

}  // namespace kintsugi::repair_tree
