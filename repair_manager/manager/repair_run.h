/// One attempt to repair or move chunks of a stripe, from its plan to its end.
#pragma once

#include <optional>
#include <set>
#include <vector>

#include "common/proto/chunk.pb.h"
#include "common/proto/repair.pb.h"
#include "common/runtime/event.h"
#include "common/runtime/runtime.h"
#include "repair_manager/joint/queue.h"
#include "repair_manager/plan/make_plan.h"

namespace kintsugi::repair_manager {

/// Only RepairRunner changes it. Shared with the call of the root, which may outlive the attempt, and with requesters
/// that wait for the attempt's end.
struct RepairRun {
  RepairRun(const runtime::Runtime& runtime, RepairPlan what) : plan(std::move(what)), changed(runtime) {}

  const RepairPlan plan;
  /// One for each target. When the attempt has ended: those of targets that failed, with the time of their
  /// next attempt.
  std::vector<QueueEntry> entries;
  std::set<uint32_t> healthy;    ///< chunks that were available when somebody asked for their repair
  std::set<ChunkId> lost_again;  ///< chunks of the plan that were reported lost while it ran
  proto::RepairRecord record;    ///< shown to people; no code decides by it
  std::optional<Status> ended;   ///< outcome; none: the repair runs
  uint64_t span = 0;             ///< the task that carries out the repair; 0: it is not recorded

  // The call of the root.
  TimePoint began{};
  runtime::Event changed;  ///< notified when `answer` or `dead` is set
  std::optional<Result<proto::RepairChunkResponse>> answer;
  ServerId dead;       ///< a server of the plan that was declared dead during the repair
  bool built = false;  ///< the root has succeeded: only the commit can still fail
};

}  // namespace kintsugi::repair_manager
