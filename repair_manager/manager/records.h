/// What is told about repairs, moves and degraded reads: those under way, and a bounded history.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/proto/repair.pb.h"
#include "common/runtime/clock.h"
#include "repair_manager/plan/make_plan.h"

namespace kintsugi::repair_manager {

/// The record of a plan that begins now: outcome RUNNING.
proto::RepairRecord describe(const RepairPlan& plan, WallTime now);

class RepairRecords {
 public:
  explicit RepairRecords(size_t history) : limit_(history) {}

  /// Its repair id is new (asserted).
  void begin(proto::RepairRecord record);
  /// Of what is under way (asserted).
  const proto::RepairRecord& running(RepairId id) const { return running_.at(id.value); }
  /// The record, changed in the meantime, goes into the history with its outcome: DONE or FAILED.
  void end(proto::RepairRecord record, bool ok);

  const std::map<uint64_t, proto::RepairRecord>& all_running() const { return running_; }
  /// Newest first.
  std::vector<proto::RepairRecord> history(size_t limit) const;

 private:
  size_t limit_;
  std::map<uint64_t, proto::RepairRecord> running_;  // by repair id
  std::deque<proto::RepairRecord> history_;          // newest first
};

}  // namespace kintsugi::repair_manager
