/// The heart of every repair shape: a node's own chunk added to the sums of its children.
#pragma once

#include <memory>

#include "chunkserver/repair/own_sum.h"
#include "chunkserver/repair/running_trees.h"
#include "partial_sum/sum_receiver.h"

namespace kintsugi::chunkserver {

/// A SumReceiver with the node's own chunk, which runs only as far as the server admits it.
class TreeSum {
 public:
  /// The terms of the sum: `range` of the children's sums, each child asked by `request`, and of the own chunk, where
  /// the node has one (a root has none).
  struct Terms {
    partial_sum::SumRange range;
    const proto::PartialSumRequest& request;
    const partial_sum::Children& children;
    std::unique_ptr<OwnSum> own;
  };

  /// References outlive it. `options.own` is ignored.
  TreeSum(RunningTrees& trees, const runtime::Runtime& runtime, rpc::Client& client, Terms terms,
          partial_sum::ReceiverOptions options);

  /// Puts everything into the sink, or returns the first error; then no stream is open and no task runs any more. The
  /// errors of RunningTrees::admit come before anything was opened.
  asio::awaitable<Status> run(Context context, partial_sum::SumSink& sink);
  /// Makes run() end soon with `why`.
  void fail(Status why) { receiver_.fail(std::move(why)); }

  double read_seconds() const { return own_ ? own_->read_seconds() : 0; }
  double compute_seconds() const {
    return receiver_.compute_seconds() + (own_ ? own_->compute_seconds() : 0);
  }
  uint64_t disk_bytes() const { return own_ ? own_->disk_bytes() : 0; }
  const partial_sum::SumReceiver& receiver() const { return receiver_; }

 private:
  RunningTrees& trees_;
  const std::unique_ptr<OwnSum> own_;
  partial_sum::SumReceiver receiver_;
  /// Admission that is held as long as the window's memory.
  std::unique_ptr<RunningTrees::Admission> admission_;
};

}  // namespace kintsugi::chunkserver
