/// The receiving half of every repair tree: adds up the sums of a node's children, slice by slice, and hands
/// complete ones on.
#pragma once

#include <memory>
#include <vector>

#include <boost/asio/awaitable.hpp>

#include "common/proto/repair.pb.h"
#include "common/runtime/task_group.h"
#include "repair_tree/child_sum.h"
#include "repair_tree/slice_window.h"
#include "repair_tree/sum_sink.h"

namespace kintsugi::repair_tree {

using Children = google::protobuf::RepeatedPtrField<proto::RepairNode>;

/// What a node adds of its own, besides its children.
class SumContributor {
 public:
  virtual ~SumContributor() = default;
  /// Adds every slice of the window, in order.
  virtual asio::awaitable<Status> contribute(Context context, SliceWindow& window) = 0;
};

/// A root without a chunk of its own (a degraded read, a repair site) uses it as it is.
class SumReceiver {
 public:
  /// `request`: ids, range and slices, everything but the node; it is what each child is asked. `own` may be
  /// null. References outlive run().
  SumReceiver(const runtime::Runtime& runtime, rpc::Client& client, SumRange range,
              const proto::PartialSumRequest& request, const Children& children,
              SumContributor* own = nullptr);

  /// Opens all children at once. Everything was put into the sink, or the first error, which names the
  /// server; then no stream is open and no task runs any more.
  asio::awaitable<Status> run(Context context, SumSink& sink);
  /// Makes run() end soon with `why`.
  void fail(Status why);

  double compute_seconds() const;
  double network_seconds() const;  ///< of the child that was waited for longest
  uint64_t bytes_in() const;       ///< from the children
  /// Timings of the subtrees, for one who reports them upward. After run().
  void add_servers(google::protobuf::RepeatedPtrField<proto::ServerTiming>& servers) const;

 private:
  asio::awaitable<void> run_child(Context context, ChildSum& child);
  asio::awaitable<void> run_own(Context context);
  asio::awaitable<Status> consume(SumSink& sink);

  const runtime::Runtime& runtime_;
  SumContributor* own_;
  SliceWindow window_;
  std::vector<std::unique_ptr<ChildSum>> children_;
  runtime::TaskGroup tasks_;
};

/// What the children of a degraded read are asked.
proto::PartialSumRequest request_of(const proto::SumPlan& plan);

}  // namespace kintsugi::repair_tree
