/// One attempt to repair or move chunks of a stripe, from its plan to its end.
#pragma once

#include <memory>
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
  proto::RepairRecord record;    ///< for people; nothing is decided by it
  std::optional<Status> ended;   ///< none: it runs
  uint64_t span = 0;             ///< of the task that carries it out; 0: nobody records

  // The call of the root.
  TimePoint began{};
  runtime::Event changed;  ///< `answer` or `dead` was set
  std::optional<Result<proto::RepairChunkResponse>> answer;
  ServerId dead;       ///< a server of the plan that was declared dead meanwhile
  bool built = false;  ///< the root answered well: only the commit can still fail
};

}  // namespace kintsugi::repair_manager
