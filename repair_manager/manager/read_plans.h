/// Degraded reads: a client asks for the tree that gives it a range of a lost chunk, and says when it is done.
///
/// A read that is under way is known by a ticket, the repair id in its plan: random, told only to the client that asked
/// for the plan, and not the id that status and history show. Whoever has it may finish the read, nobody else. It
/// names the shard of the stripe, by which the metaserver finds the manager that made the plan.
///
/// Degraded reads have the highest priority: they do not wait for slots. Until the client says that it finished, or its
/// lease ends, the helpers count as busy, so that repairs keep away from them.
#pragma once

#include <cstdint>
#include <map>
#include <set>

#include "common/proto/repair.pb.h"
#include "common/runtime/runtime.h"
#include "repair_manager/manager/records.h"
#include "repair_manager/plan/planner.h"

namespace kintsugi::repair_manager {

class ReadPlans {
 public:
  /// Reads that are known at once. When more begin, those whose leases end first are forgotten.
  static constexpr size_t kMaxOpen = 16384;
  /// A read that takes longer than this and kLeaseFactor times the estimate is forgotten.
  static constexpr Duration kMinLease = 30s;
  static constexpr double kLeaseFactor = 20;
  static constexpr Duration kMaxLease = 5min;  ///< longest lease of a read, however slow the links seem

  /// All outlive it.
  ReadPlans(const runtime::Runtime& runtime, RepairPlanner& planner, RepairRecords& records)
      : runtime_(runtime), planner_(planner), records_(records) {}

  /// kInvalidArgument: no such range, shape, or too many excluded; kNotFound: no such chunk; kUnavailable:
  /// too few helpers are alive.
  Result<proto::PlanReadResponse> plan(const proto::PlanReadRequest& request);
  /// kNotFound: unknown, finished, or forgotten.
  Status finish(const proto::FinishReadRequest& request);

  /// Forgets reads whose lease ended. Returns when the next lease ends (TimePoint::max() = none).
  TimePoint expire(TimePoint now);

  size_t open() const { return open_.size(); }

 private:
  struct Open {
    RepairPlan plan;  // the plan without its tree, which the client has
    TimePoint began, expires;
  };
  using OpenReads = std::map<uint64_t, Open>;  // key: ticket

  void close(OpenReads::iterator read, proto::RepairRecord record, bool ok);
  void forget(OpenReads::iterator read, const std::string& why);

  runtime::Runtime runtime_;
  RepairPlanner& planner_;
  RepairRecords& records_;
  OpenReads open_;
  std::set<std::pair<TimePoint, uint64_t>> by_expiry_;
};

}  // namespace kintsugi::repair_manager
