/// Settings of a repair manager.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "common/base/status.h"
#include "common/runtime/clock.h"
#include "repair_manager/trees/cost_model.h"
#include "repair_manager/trees/tree_plan.h"

namespace kintsugi::repair_manager {

/// How the repairs of many lost chunks are chosen.
enum class Schedule {
  /// m-PPR: one repair after another, each on the servers that are best at that moment (algorithm 5).
  kGreedy,
  kJoint,  ///< many repairs at once, so that all links have equal load (joint_schedule.h)
};

/// "greedy", "joint". kInvalidArgument otherwise.
Result<Schedule> parse_schedule(std::string_view name);

struct Options {
  /// How long repairs wait after a server's death, if the stripe has more than one spare chunk.
  Duration delay{};
  /// Repairs in which a server helps at once, and that it receives at once. The joint schedule keeps links at half of
  /// it or somewhat more, until what is left fits as a whole.
  uint32_t max_per_server = 16;
  size_t max_running = 8192;       ///< repairs and moves that run at once
  uint32_t attempts_in_a_row = 4;  ///< failures in a row after which the chunk goes to the queue's tail
  Duration min_deadline = 30s;     ///< shortest deadline of one attempt
  size_t history = 1000;           ///< number of records that are kept
  LinkModel link;
  Shape shape = Shape::AUTO;
  uint64_t slice_bytes = 0;  ///< 0: the cost model's default
  /// kJoint plans only chains, so repairs for which another shape is asked are planned greedily.
  Schedule schedule = Schedule::kJoint;
};

}  // namespace kintsugi::repair_manager
