#include "monitoring/sight/open_tasks.h"

#include <algorithm>
#include <unordered_map>

namespace kintsugi::sight {

namespace {

/// Records of a task's stack, and streams that it has open, that are given at most.
constexpr size_t kMaxDepth = 64;

/// Regions beside the stack, by task.
std::unordered_multimap<uint32_t, LiveRecord> held_records(const RecordTable& records) {
  std::unordered_multimap<uint32_t, LiveRecord> held;
  LiveRecord beside;
  for (uint32_t slot = 1; slot < records.slots(); ++slot)
    if (records.read(slot, beside) && beside.below == slot) held.emplace(beside.task, beside);
  return held;
}

}  // namespace

std::vector<OpenTask> open_tasks(const LiveWork& live) {
  std::vector<OpenTask> tasks;
  const auto held = held_records(live.records());
  for (uint32_t slot = 1; slot < live.tasks().slots(); ++slot) {
    OpenTask open;
    open.slot = slot;
    if (!live.tasks().read(slot, open.task)) continue;
    LiveRecord record;
    for (uint32_t at = open.task.top; at != 0 && open.records.size() < kMaxDepth; at = record.below) {
      // A stack that changes while it is read counts as far as it was seen: it moves, so nobody waits for it.
      if (!live.records().read(at, record) || record.task != slot) break;
      open.records.push_back(record);
    }
    if (open.records.empty()) continue;
    for (auto [each, end] = held.equal_range(slot); each != end; ++each) {
      // The task that opened it may have ended, and its number been given again.
      const bool is_its = each->second.trace_id == open.records.back().trace_id &&
                          each->second.entered_ns >= open.task.began_ns;
      if (is_its && open.held.size() < kMaxDepth) open.held.push_back(each->second);
    }
    // Opening a region is no movement of its own: a loop of few states goes round without end.
    open.moved_ns = std::max(open.task.changed_ns, open.task.began_ns);
    for (const LiveRecord& each : open.records)
      if (each.progress != 0) open.moved_ns = std::max(open.moved_ns, each.progressed_ns);
    open.idle =
        open.records.front().wait == runtime::WaitKind::kIdle && open.records.back().parent_span_id == 0;
    tasks.push_back(std::move(open));
  }
  std::stable_sort(tasks.begin(), tasks.end(),
                   [](const OpenTask& a, const OpenTask& b) { return a.task.began_ns < b.task.began_ns; });
  return tasks;
}

}  // namespace kintsugi::sight
