/// The receiving half of every repair tree: adds up the sums of a node's children, slice by slice, and hands complete
/// slices on.
#pragma once

#include <memory>
#include <vector>

#include <boost/asio/awaitable.hpp>

#include "common/proto/repair.pb.h"
#include "common/runtime/task_group.h"
#include "partial_sum/child_sum.h"
#include "partial_sum/slice_window.h"
#include "partial_sum/sum_sink.h"

namespace kintsugi::partial_sum {

using Children = google::protobuf::RepeatedPtrField<proto::RepairNode>;

/// A node's own contribution to its sums, besides those of its children.
class SumContributor {
 public:
  virtual ~SumContributor() = default;
  /// Adds every unit of the window as `contributor`, in order.
  virtual asio::awaitable<Status> contribute(Context context, SliceWindow& window, size_t contributor) = 0;
};

struct ReceiverOptions {
  SumContributor* own = nullptr;  ///< null: only the children contribute
  Pace* pace = nullptr;           ///< called before frames of the children are received; may be null
  bool whole_cells = false;  ///< the sink gets whole cells (rows > 1): one sub-cell of every sum at a time
  /// The children are received one after the other, each for the whole range, all of which is in memory.
  bool staggered = false;
};

/// A root without a chunk of its own (a degraded read, a repair site) uses it as it is. Memory: at most (children + 2)
/// * slice_bytes * sums, unless staggered; peak_bytes() tells how much it was.
class SumReceiver {
 public:
  /// Every child is asked by `request`, which has ids, range, slices and rows, with its own node. REQUIRES: `children`
  /// were checked (check_tree.h); together they carry every slice. References outlive run().
  SumReceiver(const runtime::Runtime& runtime, rpc::Client& client, SumRange range,
              const proto::PartialSumRequest& request, const Children& children,
              ReceiverOptions options = {});

  /// Opens all children at once and puts everything into the sink, or returns the first error, which blames a server;
  /// then no stream is open and no task runs any more.
  asio::awaitable<Status> run(Context context, SumSink& sink);
  /// Makes run() end soon with `why`.
  void fail(Status why);

  double compute_seconds() const;
  double network_seconds() const;  ///< time spent waiting for the child that was waited for longest
  uint64_t bytes_in() const;       ///< bytes received from the children
  /// The window's memory when it is full.
  uint64_t window_bytes() const {
    return window_.size().units * window_.size().unit_bytes * window_.range().sums;
  }
  uint64_t peak_bytes() const { return window_.held().peak(); }
  /// Appends the timings of the subtrees, for one who reports them upward. REQUIRES: run() has returned.
  void add_servers(google::protobuf::RepeatedPtrField<proto::ServerTiming>& servers) const;

 private:
  void spawn(asio::awaitable<void> task);
  asio::awaitable<void> counted(asio::awaitable<void> task);
  asio::awaitable<void> run_child(Context context, ChildSum& child);
  asio::awaitable<void> run_staggered(Context context);
  asio::awaitable<void> run_own(Context context);
  asio::awaitable<Status> consume(Context context, SumSink& sink);

  const runtime::Runtime& runtime_;
  const ReceiverOptions options_;
  SliceWindow window_;
  std::vector<std::unique_ptr<ChildSum>> children_;
  size_t running_ = 0;    ///< unfinished tasks of the children and of the own chunk
  runtime::Event ended_;  ///< notified when one of these tasks ends
  runtime::TaskGroup tasks_;
};

/// Sums up the timings of a tree's servers as those of one repair: all bytes, the most memory and the slowest reader;
/// the other seconds are those of the first server, which is the root.
void add_up(const google::protobuf::RepeatedPtrField<proto::ServerTiming>& servers, proto::Timing& timing);

/// The request by which the children of a degraded read are asked.
proto::PartialSumRequest request_of(const proto::SumPlan& plan);

}  // namespace kintsugi::partial_sum
