#include "monitoring/progress/texts/task_model.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <unordered_map>

namespace kintsugi::progress {
namespace {

/// The counts of all tasks together. Most tasks have the same transitions, and are added up without looking any of
/// them up.
std::vector<Standing::Count> sum_of(const std::vector<Standing>& standing) {
  std::vector<Standing::Count> usual;
  std::map<std::pair<uint64_t, uint64_t>, double> others;
  for (const Standing& task : standing) {
    if (usual.empty()) usual.reserve(task.counts.size());
    if (usual.empty())
      for (const Standing::Count& count : task.counts)
        usual.push_back({count.from, count.to, 0});
    const bool is_usual =
        std::equal(usual.begin(), usual.end(), task.counts.begin(), task.counts.end(),
                   [](const auto& a, const auto& b) { return a.from == b.from && a.to == b.to; });
    for (size_t i = 0; i < task.counts.size(); i++)
      if (is_usual)
        usual[i].times += task.counts[i].times;
      else
        others[{task.counts[i].from, task.counts[i].to}] += task.counts[i].times;
  }
  for (const auto& [ends, times] : others)
    usual.push_back({ends.first, ends.second, times});
  return usual;
}

/// States that tasks of a role begin and end with, and from where they are called.
struct RoleEnds {
  std::set<uint64_t> entries, exits;
  std::set<uint64_t> callers;  ///< role paths of calling regions, in any process
};

void join_calls_of(const OpenTasks& tasks, Markov& markov) {
  std::map<std::string, RoleEnds> roles;
  std::unordered_map<uint64_t, uint64_t> role_path_of;  // key: path
  std::map<uint64_t, std::set<uint64_t>> waits_of;      // key: role path; the states that wait for an answer
  for (const auto& view : tasks.snapshot().processes)
    for (const auto& [id, path] : view->paths())
      role_path_of[id] = path.role_path();
  for (const auto& view : tasks.snapshot().processes) {
    for (const auto& [id, path] : view->paths()) {
      const auto caller = role_path_of.find(path.parent());
      if (caller != role_path_of.end()) roles[path.site()].callers.insert(caller->second);
    }
    for (const auto& [ends, edge] : view->edges()) {
      const proto::SightState* from = view->state(edge.from());
      const proto::SightState* to = view->state(edge.to());
      if (from == nullptr && to != nullptr)
        roles[view->role_name(to->role())].entries.insert(state_key(*view, edge.to()));
      if (to == nullptr && from != nullptr)
        roles[view->role_name(from->role())].exits.insert(state_key(*view, edge.from()));
    }
    for (const auto& [id, state] : view->states())
      if (waits_for_others(state.wait())) waits_of[state.role_path()].insert(state_key(*view, id));
  }
  std::map<uint64_t, std::vector<uint64_t>> before;  // key: state; its predecessors
  for (uint32_t from = 0; from < markov.size(); from++)
    for (const uint32_t to : markov.successors()[from])
      before[markov.key(to)].push_back(markov.key(from));
  for (const auto& [name, role] : roles)
    for (const uint64_t caller : role.callers)
      for (const uint64_t wait : waits_of[caller]) {
        for (const uint64_t entry : role.entries)
          for (const uint64_t from : before[wait])
            markov.add(from, entry);
        for (const uint64_t exit : role.exits)
          markov.add(exit, wait);
      }
}

}  // namespace

GlobalModel global_model(const std::vector<Standing>& standing) {
  GlobalModel model;
  for (const Standing& task : standing)
    if (task.state != 0) model.markov.add_state(task.state);
  for (const Standing::Count& count : sum_of(standing))
    if (count.from != 0 && count.to != 0) model.markov.add(count.from, count.to, count.times);
  return model;
}

GlobalModel global_model(const OpenTasks& tasks, const std::vector<Standing>& standing, bool join_calls) {
  GlobalModelBuilder builder(tasks.snapshot());
  for (const Standing& task : standing)
    if (task.state != 0) builder.markov().add_state(task.state);
  for (const Standing::Count& count : sum_of(standing))
    builder.add(count.from, count.to, count.times);
  if (join_calls) join_calls_of(tasks, builder.markov());
  return builder.build();
}

}  // namespace kintsugi::progress
