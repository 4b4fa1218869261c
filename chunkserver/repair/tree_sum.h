/// The heart of every repair shape: adds up the partial sums of a node's children and its own chunk, slice by
/// slice.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include <boost/asio/awaitable.hpp>

#include "chunkserver/repair/child_sum.h"
#include "chunkserver/repair/repair_parts.h"
#include "chunkserver/repair/slice_window.h"
#include "common/runtime/task_group.h"
#include "erasure/multiply.h"

namespace kintsugi::chunkserver {

/// Where complete slices go, in order.
class SumSink {
 public:
  virtual ~SumSink() = default;
  /// `sums`: the same range of every sum, beginning at `offset` of the chunk; zero from `nonzero_bytes` on.
  virtual asio::awaitable<Status> put(uint64_t offset, std::span<const std::span<std::byte>> sums,
                                      uint64_t nonzero_bytes) = 0;
  /// Called every kTreeIdleInterval while the next slice is not complete yet.
  virtual asio::awaitable<Status> idle() = 0;
};

/// Shorter than rpc::kStreamIdleLimit: an unsliced tree says nothing for long, and must not be taken for
/// dead.
inline constexpr Duration kTreeIdleInterval = std::chrono::seconds(10);

/// What a node adds itself.
struct OwnChunk {
  ChunkId id;
  uint64_t length = 0;  ///< as the stripe's metadata says
  std::string coefficients;
};

/// Memory: the window (3 slices, or up to 4 MiB of small ones) and a frame for each child. Nothing waits for
/// a slot.
class TreeSum {
 public:
  /// `request`: range, slices and ids; `children` and `own` (may be null) contribute. References outlive
  /// run().
  TreeSum(RepairParts& parts, SumRange range, const proto::PartialSumRequest& request,
          const google::protobuf::RepeatedPtrField<proto::RepairNode>& children, const OwnChunk* own);
  ~TreeSum();

  /// Everything was put into the sink, or the first error; then no stream is open and no task runs any more.
  asio::awaitable<Status> run(Context context, SumSink& sink);
  /// Makes run() end soon with `why`.
  void fail(Status why);

  double read_seconds() const { return read_seconds_; }
  double compute_seconds() const;
  double network_seconds() const;  ///< of the child that was waited for longest
  uint64_t bytes_in() const;
  /// Timings of the subtrees, for one who reports them upward.
  void add_servers(google::protobuf::RepeatedPtrField<proto::ServerTiming>& servers) const;

 private:
  asio::awaitable<void> run_child(Context context, ChildSum& child);
  asio::awaitable<void> run_own(Context context);
  asio::awaitable<Status> add_own(Context context);
  asio::awaitable<Status> add_own_slice(Context context, ChunkReader& reader, size_t slice);
  asio::awaitable<Status> consume(SumSink& sink);

  RepairParts& parts_;
  const runtime::Runtime& runtime_;
  std::list<TreeSum*>::iterator registered_;
  const OwnChunk* own_;
  std::optional<erasure::MultiplyTable> table_;  ///< of own_
  SliceWindow window_;
  std::vector<std::unique_ptr<ChildSum>> children_;
  runtime::TaskGroup tasks_;
  double read_seconds_ = 0, compute_seconds_ = 0;
};

}  // namespace kintsugi::chunkserver
