/// The heart of every repair shape: a node's own chunk added to the sums of its children.
#pragma once

#include <optional>

#include <boost/asio/awaitable.hpp>

#include "chunkserver/repair/repair_parts.h"
#include "erasure/multiply.h"
#include "repair_tree/sum_receiver.h"

namespace kintsugi::chunkserver {

/// What a node adds itself.
struct OwnChunk {
  ChunkId id;
  uint64_t length = 0;  ///< as the stripe's metadata says
  std::string coefficients;
};

/// The sum of a node: a SumReceiver that is known to the server, with the own chunk.
class TreeSum final : private repair_tree::SumContributor {
 public:
  /// `request`: range, slices and ids; `children` and `own` (may be null) contribute. References outlive
  /// run().
  TreeSum(RepairParts& parts, repair_tree::SumRange range, const proto::PartialSumRequest& request,
          const repair_tree::Children& children, const OwnChunk* own);
  ~TreeSum();

  /// Everything was put into the sink, or the first error; then no stream is open and no task runs any more.
  asio::awaitable<Status> run(Context context, repair_tree::SumSink& sink);
  /// Makes run() end soon with `why`.
  void fail(Status why) { receiver_.fail(std::move(why)); }

  double read_seconds() const { return read_seconds_; }
  double compute_seconds() const { return compute_seconds_ + receiver_.compute_seconds(); }
  const repair_tree::SumReceiver& receiver() const { return receiver_; }

 private:
  asio::awaitable<Status> contribute(Context context, repair_tree::SliceWindow& window) override;
  asio::awaitable<Status> add_slice(Context context, ChunkReader& reader, repair_tree::SliceWindow& window,
                                    size_t slice);

  RepairParts& parts_;
  const runtime::Runtime& runtime_;
  std::list<TreeSum*>::iterator registered_;
  const OwnChunk* own_;
  std::optional<erasure::MultiplyTable> table_;  ///< of own_
  repair_tree::SumReceiver receiver_;
  double read_seconds_ = 0, compute_seconds_ = 0;
};

}  // namespace kintsugi::chunkserver
