/// The heart of every repair shape: a node's own chunk added to the sums of its children.
#pragma once

#include <optional>

#include "chunkserver/repair/own_sum.h"
#include "chunkserver/repair/repair_parts.h"
#include "partial_sum/sum_receiver.h"

namespace kintsugi::chunkserver {

/// A SumReceiver that the server knows of and can end, with the own chunk.
class TreeSum {
 public:
  /// `node`: has a chunk, or is null for a root. References outlive run().
  TreeSum(RepairParts& parts, partial_sum::SumRange range, const proto::PartialSumRequest& request,
          const partial_sum::Children& children, const proto::RepairNode* node,
          partial_sum::ReceiverOptions options);
  ~TreeSum();

  /// Everything was put into the sink, or the first error; then no stream is open and no task runs any more.
  /// kLimitExceeded: kMaxTrees, kMaxWindowBytes.
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
  partial_sum::ReceiverOptions with_own(partial_sum::ReceiverOptions options, bool user);
  Status admit();

  RepairParts& parts_;
  std::list<TreeSum*>::iterator registered_;
  std::optional<OwnSum> own_;
  partial_sum::SumReceiver receiver_;
  uint64_t charged_ = 0;  ///< of the server's window_bytes
};

}  // namespace kintsugi::chunkserver
