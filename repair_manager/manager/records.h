/// Records of repairs, moves and degraded reads for people: of those under way, and a bounded history. Nothing is
/// decided by them.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <vector>

#include "common/proto/repair.pb.h"
#include "common/runtime/clock.h"
#include "repair_manager/plan/make_plan.h"

namespace kintsugi::repair_manager {

/// Describes a plan that begins now; its outcome is RUNNING.
proto::RepairRecord describe(const RepairPlan& plan, WallTime now);

class RepairRecords {
 public:
  explicit RepairRecords(size_t history) : limit_(history) {}

  /// REQUIRES: its repair id is new.
  void begin(proto::RepairRecord record);
  /// REQUIRES: the repair is under way.
  const proto::RepairRecord& running(RepairId id) const { return running_.at(id.value); }
  /// Moves the record, which may have changed since begin(), into the history. REQUIRES: its outcome is not RUNNING.
  void end(proto::RepairRecord record);

  const std::map<uint64_t, proto::RepairRecord>& all_running() const { return running_; }
  /// Newest first.
  std::vector<proto::RepairRecord> history(size_t limit) const;

 private:
  size_t limit_;
  std::map<uint64_t, proto::RepairRecord> running_;  // key: repair id
  std::deque<proto::RepairRecord> history_;          // newest first
};

}  // namespace kintsugi::repair_manager
