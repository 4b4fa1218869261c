#include "monitoring/progress/texts/point_to_point.h"

#include <algorithm>
#include <unordered_map>

namespace kintsugi::progress {
namespace {

bool contains(const std::vector<uint32_t>& elements, uint32_t one) {
  return std::ranges::find(elements, one) != elements.end();
}

/// The tasks at the other end of what is waited for by name. `caller`: the span of whoever called the waiting task.
const std::vector<uint32_t>& others_at(const OpenTasks& tasks, const proto::SightLive& wait,
                                       uint64_t caller) {
  static const std::vector<uint32_t> kNobody;
  if (is_stream_wait(wait.wait()) && wait.target_span() != 0) return tasks.begun_by(wait.target_span());
  const uint64_t span = wait.target_span() != 0 ? wait.target_span() : caller;
  return wait.wait() == proto::WAIT_UPSTREAM && span != 0 ? tasks.at_stream(span) : kNobody;
}

}  // namespace

std::vector<uint32_t> without_point_to_point(const std::vector<uint32_t>& least,
                                             const std::vector<std::vector<uint32_t>>& waits_for) {
  if (least.size() < 2) return least;
  std::vector<uint32_t> kept;
  for (const uint32_t one : least) {
    const bool waits = std::ranges::any_of(waits_for[one], [&](uint32_t other) {
      return other != one && (!contains(least, other) || !contains(waits_for[other], one));
    });
    if (!waits) kept.push_back(one);
  }
  return kept.empty() ? least : kept;
}

std::vector<std::vector<uint32_t>> named_waits(const OpenTasks& tasks,
                                               const std::vector<Standing>& standing) {
  std::unordered_map<uint32_t, uint32_t> element_of;  // key: task
  for (uint32_t i = 0; i < standing.size(); i++)
    element_of.emplace(standing[i].task, i);
  std::vector<std::vector<uint32_t>> waits_for(standing.size());
  for (uint32_t i = 0; i < standing.size(); i++) {
    const OpenTask& task = tasks[standing[i].task];
    const proto::SightLive& top = task.top();
    const std::vector<uint32_t>& others = others_at(tasks, top, task.root().parent());
    for (const uint32_t other : others)
      if (const auto found = element_of.find(other); found != element_of.end())
        waits_for[i].push_back(found->second);
  }
  return waits_for;
}

}  // namespace kintsugi::progress
