#include "monitoring/progress/texts/task_verdicts.h"

#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>

#include "monitoring/progress/waits/process_verdicts.h"

namespace kintsugi::progress {
namespace {

using proto::Verdict;

constexpr size_t kMostVerdicts = 32;

}  // namespace

Verdict verdict_of_task(const OpenTasks& tasks, uint32_t task) {
  const OpenTask& open = tasks[task];
  Verdict verdict = verdict_of_process(tasks, open.process, Verdict::STUCK);
  const std::string& kind = verdict.process_kind();
  if (kind == "client" || kind == "mount") verdict.set_kind(Verdict::CLIENT);
  verdict.set_region(tasks.region(task));
  verdict.set_file(open.top().file());
  verdict.set_line(open.top().line());
  verdict.set_function(open.top().function());
  verdict.set_since_ns(static_cast<uint64_t>(open.still.count()));
  verdict.set_probability(0.5);
  verdict.set_confidence(Verdict::UNSURE);
  verdict.add_why("by its progress, not by what others wait for");
  return verdict;
}

std::vector<Verdict> verdicts_of(const OpenTasks& tasks, const std::vector<Standing>& standing,
                                 const std::vector<uint32_t>& least) {
  struct Place {
    uint32_t task = 0;
    std::set<uint64_t> traces;
    std::set<uint32_t> tasks;
  };
  std::map<std::pair<uint32_t, std::string>, Place> places;
  std::map<uint64_t, uint32_t> tasks_of_trace;
  for (const Standing& each : standing)
    tasks_of_trace[each.trace]++;
  for (const uint32_t index : least) {
    const uint32_t task = standing[index].task;
    Place& place = places[{tasks[task].process, tasks.region(task)}];
    if (place.tasks.empty() || tasks[task].still > tasks[place.task].still) place.task = task;
    place.tasks.insert(task);
    place.traces.insert(tasks[task].trace());
  }
  std::vector<Verdict> verdicts;
  for (const auto& [key, place] : places) {
    Verdict verdict = verdict_of_task(tasks, place.task);
    uint32_t waiters = 0;
    for (const uint64_t trace : place.traces)
      waiters += tasks_of_trace[trace];
    verdict.set_waiters(waiters - std::min(waiters, static_cast<uint32_t>(place.tasks.size())));
    for (const uint64_t trace : place.traces)
      if (verdict.operations_size() < 16) verdict.add_operations(fmt::format("operation {:016x}", trace));
    verdicts.push_back(std::move(verdict));
  }
  std::stable_sort(verdicts.begin(), verdicts.end(),
                   [](const Verdict& a, const Verdict& b) { return a.waiters() > b.waiters(); });
  if (verdicts.size() > kMostVerdicts) verdicts.resize(kMostVerdicts);
  return verdicts;
}

}  // namespace kintsugi::progress
