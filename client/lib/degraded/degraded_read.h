/// Reads a range of a lost chunk with this client as the repair site (Mitra 2016, section 4.6.2, "Reconstruction during
/// degraded reads").
///
/// The repair manager is asked for a plan (PlanRead, which has the highest priority and waits for no slots), the root's
/// children are called, and their sums are added up and handed on slice by slice, in the order of the chunk: the first
/// bytes are there after one slice, and the client's downlink carries the range once for each child of the root instead
/// of once for each of k chunks.
///
/// A read proves this much: every helper adds only blocks that match their checksums, and every frame on the way
/// carries one, so bytes that a disk or the network garbles fail the read. A sum of verified inputs is still wrong when
/// a coefficient is, or when a helper holds a well-formed chunk other than the one that was written; only the CRC of
/// the whole chunk, which is in the stripe's metadata, shows that. So a read of the whole chunk compares it, and its
/// bytes are provisional until run() returns; a read of a part stands on the plan and on the helpers' chunks being what
/// their servers say (scrubs and whole reads find those that are not).
#pragma once

#include <optional>
#include <span>
#include <string>

#include "client/lib/degraded/lost_range.h"
#include "client/lib/degraded/read_plans.h"
#include "client/lib/io.h"
#include "client/lib/resources.h"
#include "common/proto/repair.pb.h"
#include "common/runtime/context.h"

namespace kintsugi::client {

class PlanRun;

struct DegradedReadReport {
  double seconds = 0, first_byte_seconds = 0;  ///< time from the beginning, including planning
  double plan_seconds = 0;                     ///< time that the latest plan took
  double network_seconds = 0, compute_seconds = 0;
  uint64_t bytes = 0;                       ///< bytes delivered to the sink
  uint64_t bytes_in = 0;                    ///< bytes received from helpers
  std::optional<proto::RepairShape> shape;  ///< shape of the last plan; none: decoded without a plan
  uint64_t slice_bytes = 0;
  uint32_t helpers = 0;  ///< chunks that were read
  uint32_t plans = 0;    ///< plans that were carried out
  std::string trouble;   ///< failures before the read succeeded
};

class DegradedRead final : private Sink {
 public:
  /// A plan whose servers fail is given up, and another one asked for without the server that is to blame.
  static constexpr uint32_t kMaxPlans = 3;

  /// `sink` gets [begin, end) in order; its offsets are those in the chunk. Use once.
  DegradedRead(Resources& resources, Context context, LostRange range, TreeWishes wishes, Sink& sink);

  /// Ok: all bytes were handed on. kUnavailable, kDeadlineExceeded: no plan, or none that worked (the caller may decode
  /// k others itself, from `delivered` on). kCorrupt: the whole chunk does not have its CRC. A server that failed is
  /// avoided by this client for a while.
  asio::awaitable<Status> run();
  /// Makes run() end soon; the sink gets no further call. For the sink's owner, who may then go away.
  void cancel();

  /// Offset in the chunk up to which bytes were handed on.
  uint64_t delivered() const { return next_; }
  /// The CRC of [0, delivered()), when the whole chunk is read.
  uint32_t crc() const { return crc_; }
  const DegradedReadReport& report() const { return report_; }

 private:
  /// Follows one plan after the other, until one worked or nobody else is to blame.
  asio::awaitable<Status> read();
  asio::awaitable<Status> follow(const proto::SumPlan& plan);
  asio::awaitable<Status> follow(const proto::SumPlan& plan, proto::FinishReadRequest& outcome);
  asio::awaitable<Result<Lease>> reserve_sums(uint64_t bytes);
  /// The bytes of the plan that runs, in the chunk's order.
  asio::awaitable<Status> write(uint64_t offset, std::span<const std::span<const std::byte>> bytes) override;
  /// Adds the figures of a plan that ended to the report.
  void count(const PlanRun& run, proto::FinishReadRequest& outcome);
  Status check_whole() const;

  Resources& resources_;
  Context context_;
  const LostRange range_;
  const TreeWishes wishes_;
  Sink* sink_;  ///< null once the read is cancelled
  const TimePoint began_;
  uint64_t next_;
  uint32_t crc_ = 0;
  ReadPlans plans_;
  PlanRun* running_ = nullptr;
  DegradedReadReport report_;
};

}  // namespace kintsugi::client
