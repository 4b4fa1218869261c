#include "monitoring/sight/tables/tasks.h"

#include <algorithm>

namespace kintsugi::sight {

/// Finds the edge to the state in which the task is now among those of the task, or adds it.
[[gnu::noinline]] void TaskTable::take_other_edge(TaskRecord& task, uint16_t from, int64_t now_ns,
                                                  uint32_t* usual_place) {
  const uint16_t to = task.state;
  uint32_t place = 0;
  while (place < task.edge_count && (task.edges[place].from != from || task.edges[place].to != to))
    ++place;
  const bool is_known = place < task.edge_count;
  if (!is_known || task.edge_count >= TaskRecord::kRecent) come_to(task, to, now_ns);
  if (place == TaskRecord::kEdges) return put(task.overflowed, uint8_t{1});
  if (usual_place != nullptr) *usual_place = place;
  TaskEdge& edge = task.edges[place];
  if (is_known) return add(edge.count, uint32_t{1});
  put(edge.from, from);
  put(edge.to, to);
  put(edge.count, uint32_t{1});
  add(task.edge_count, uint8_t{1});
}

/// A task that comes to a state which is none of the last ones gets on.
[[gnu::noinline]] void TaskTable::come_to(TaskRecord& task, uint16_t state, int64_t now_ns) {
  if (std::find(std::begin(task.recent), std::end(task.recent), state) != std::end(task.recent)) return;
  put(task.recent[task.recent_next], state);
  put(task.recent_next, static_cast<uint8_t>((task.recent_next + 1) % TaskRecord::kRecent));
  put(task.changed_ns, now_ns);
}

}  // namespace kintsugi::sight
