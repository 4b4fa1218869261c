#include "monitoring/progress/counts/standing.h"

#include <algorithm>

namespace kintsugi::progress {
namespace {

bool is_before(const Standing::Count& a, const Standing::Count& b) {
  return std::pair(a.from, a.to) < std::pair(b.from, b.to);
}

}  // namespace

void Standing::seal() {
  std::sort(counts.begin(), counts.end(), is_before);
  // Several states of a process may have one key.
  size_t kept = 0;
  for (size_t i = 0; i < counts.size(); i++) {
    if (kept > 0 && counts[kept - 1].from == counts[i].from && counts[kept - 1].to == counts[i].to)
      counts[kept - 1].times += counts[i].times;
    else
      counts[kept++] = counts[i];
  }
  counts.resize(kept);
}

double Standing::count(uint64_t from, uint64_t to) const {
  const auto found = std::lower_bound(counts.begin(), counts.end(), Count{from, to, 0}, is_before);
  return found == counts.end() || found->from != from || found->to != to ? 0 : found->times;
}

bool waits_for_others(proto::WaitKind wait) {
  switch (wait) {
    case proto::WAIT_CALL:
    case proto::WAIT_RECEIVE:
    case proto::WAIT_SEND:
    case proto::WAIT_UPSTREAM:
    case proto::WAIT_JOIN:
    case proto::WAIT_SIBLING:
    case proto::WAIT_PROCESS:
    case proto::WAIT_RESOURCE: return true;
    default: return false;
  }
}

std::vector<Standing> standing_tasks(const OpenTasks& tasks) {
  std::vector<Standing> standing;
  for (uint32_t i = 0; i < tasks.all().size(); i++) {
    const OpenTask& open = tasks[i];
    if (!open.stalled) continue;
    const model::ProcessView& view = tasks.view(i);
    Standing task{.task = i, .state = tasks.key(i), .trace = open.trace(), .role = tasks.role(i)};
    for (const proto::SightLive* record : open.records)
      task.progress = std::max(task.progress, static_cast<double>(record->progress()));
    const auto& edges = open.root().loop_edges();
    for (int e = 0; e + 2 < edges.size(); e += 3)
      task.add(state_key(view, edges[e]), state_key(view, edges[e + 1]), edges[e + 2]);
    task.seal();
    task.waits_for_others = waits_for_others(open.top().wait());
    standing.push_back(std::move(task));
  }
  return standing;
}

}  // namespace kintsugi::progress
