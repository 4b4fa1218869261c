/// Reads a range of a lost chunk with this client as the repair site (paper 4.6.2, "Reconstruction during
/// degraded reads").
///
/// The repair manager is asked for a plan (PlanRead: of the highest priority, no slots are waited for), the
/// root's children are called, and what they send is added up and handed on slice by slice, in the order of
/// the chunk: the first bytes are there after one slice, and the client's downlink carries the range once for
/// each child of the root instead of once for each of k chunks.
///
/// What is proved. Every helper adds only blocks that match their checksums, and every frame on the way
/// carries one, so what a disk or the network garbles fails the read. A sum of verified inputs is still wrong
/// when a coefficient is, or when a helper holds a well-formed chunk other than the one that was written;
/// only the CRC of the whole chunk, which is in the stripe's metadata, shows that. So a read of the whole
/// chunk compares it, and its bytes are provisional until run() returns; a read of a part stands on the plan
/// and on the helpers' chunks being what their servers say (scrubs and whole reads find those that are not).
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "client/lib/core.h"
#include "client/lib/io.h"
#include "common/base/ids.h"
#include "common/proto/repair.pb.h"
#include "common/proto/types.pb.h"
#include "common/runtime/context.h"
#include "partial_sum/sum_range.h"

namespace kintsugi::client {

/// What is read.
struct LostRange {
  uint64_t stripe_id = 0;
  proto::ChunkPlacement chunk;         ///< as OpenRead or ShowStripe gave it: index, length, CRC, capability
  uint64_t begin = 0, end = 0;         ///< of the chunk, bytes
  std::vector<ServerId> holders = {};  ///< of the stripe's chunks
};

/// Of a plan; the metaserver takes no more.
inline constexpr size_t kMaxExcluded = 64;

LostRange lost_range(const proto::Stripe& stripe, uint32_t index, uint64_t begin, uint64_t end);

struct TreeWishes {
  proto::RepairShape shape = proto::RepairShape::AUTO;
  uint64_t slice_bytes = 0;  ///< 0: the planner's choice
  /// What the caller reserved for sums; a plan that needs more is not followed. 0: run() reserves what it
  /// needs, which only a caller who holds no memory may ask for.
  uint64_t window_bytes = 0;
};

struct DegradedReadReport {
  double seconds = 0, first_byte_seconds = 0;  ///< from the beginning, planning included
  double plan_seconds = 0;                     ///< from asking until the last plan was here
  double network_seconds = 0, compute_seconds = 0;
  uint64_t bytes = 0;                       ///< handed on
  uint64_t bytes_in = 0;                    ///< received for it
  std::optional<proto::RepairShape> shape;  ///< of the last plan; none: decoded here
  uint64_t slice_bytes = 0;
  uint32_t helpers = 0;  ///< chunks that were read
  uint32_t plans = 0;    ///< that were followed
  std::string trouble;   ///< what failed before it went well
};

class DegradedRead {
 public:
  /// A plan whose servers fail is given up, and another one asked for without the server that is to blame.
  static constexpr uint32_t kMaxPlans = 3;
  /// Planning is a matter of milliseconds; a metaserver that is away is not waited for.
  static constexpr Duration kPlanLimit = std::chrono::seconds(2);
  /// A tree that hands on nothing for so long is given up: this, and what its first slice takes to come
  /// through all helpers of a chain at kSlowestBytesPerSecond.
  static constexpr Duration kStallLimit = std::chrono::seconds(5);
  static constexpr double kSlowestBytesPerSecond = 10e6;

  /// `sink` gets [begin, end) in order; its offsets are those in the chunk. Use once.
  DegradedRead(Core& core, Context context, LostRange range, TreeWishes wishes, Sink& sink);

  /// Ok: all bytes were handed on. kUnavailable, kDeadlineExceeded: no plan, or none that worked (the caller
  /// may decode k others itself, from `delivered` on). kCorrupt: the whole chunk does not have its CRC. A
  /// server that failed is avoided by this client for a while.
  asio::awaitable<Status> run();
  /// Makes run() end soon; the sink gets no further call. For the sink's owner, who may then go away.
  void cancel();

  /// Offset in the chunk up to which bytes were handed on.
  uint64_t delivered() const { return next_; }
  /// Of the whole chunk's read: the CRC of [0, delivered()).
  uint32_t crc() const { return crc_; }
  const DegradedReadReport& report() const { return report_; }

 private:
  class Tree;

  /// One plan after the other, until one worked or nobody else is to blame.
  asio::awaitable<Status> read();
  asio::awaitable<Result<proto::SumPlan>> ask();
  /// What a plan should do without, of those it could use.
  std::vector<ServerId> servers_to_exclude() const;
  asio::awaitable<Status> follow(const proto::SumPlan& plan);
  asio::awaitable<Status> follow(const proto::SumPlan& plan, std::unique_ptr<Tree>& tree);
  Status check(const proto::SumPlan& plan, const partial_sum::SumRange& range) const;
  asio::awaitable<Result<Lease>> reserve_window(uint64_t bytes);
  asio::awaitable<Status> deliver(uint64_t offset, std::span<const std::span<const std::byte>> bytes);
  void tell_outcome(const proto::SumPlan& plan, const Status& status, const Tree* tree);
  /// Leaves out the helper that the failure names innermost; false when it names none.
  bool exclude_culprit(const Status& failure, const proto::SumPlan& plan);
  Status check_whole() const;

  Core& core_;
  Context context_;
  const LostRange range_;
  const TreeWishes wishes_;
  Sink* sink_;  // null once cancelled
  const TimePoint began_;
  uint64_t next_;
  uint32_t crc_ = 0;  // of what was handed on
  std::vector<ServerId> excluded_;
  Tree* running_ = nullptr;
  DegradedReadReport report_;
};

}  // namespace kintsugi::client
