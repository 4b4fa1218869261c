#include "monitoring/progress/texts/hidden_targets.h"

#include <algorithm>
#include <map>
#include <string>

#include "monitoring/progress/texts/task_verdicts.h"
#include "monitoring/progress/texts/without_targets.h"
#include "monitoring/progress/waits/process_verdicts.h"

namespace kintsugi::progress {
namespace {

using proto::Verdict;

/// Servers may have nothing to do for so long.
constexpr Duration kIdle = 4s;

Verdict guess(const OpenTasks& tasks, size_t process, Verdict::Kind kind, const char* why) {
  Verdict verdict = verdict_of_process(tasks, process, kind);
  verdict.set_probability(0.5);
  verdict.set_confidence(Verdict::UNSURE);
  verdict.add_why(why);
  return verdict;
}

std::vector<Verdict> silent_servers(const OpenTasks& tasks) {
  std::vector<Verdict> verdicts;
  for (size_t i = 0; i < tasks.processes().size(); i++)
    if (tasks.processes()[i].silent && !tasks.snapshot().processes[i]->last().address().empty())
      verdicts.push_back(guess(tasks, i, Verdict::SILENT,
                               "it does not report, and nobody else is seen whom others may wait for"));
  return verdicts;
}

/// The servers that have begun to serve nothing since, as the only ones of their kinds.
std::vector<Verdict> idle_servers(const OpenTasks& tasks, const Movement& movement, TimePoint since) {
  struct Kind {
    std::vector<size_t> idle;
    size_t busy = 0;
  };
  std::map<std::string, Kind> kinds;
  for (size_t i = 0; i < tasks.processes().size(); i++) {
    const model::ProcessView& view = *tasks.snapshot().processes[i];
    if (view.last().address().empty() || view.last().last()) continue;
    Kind& kind = kinds[view.last().kind()];
    if (movement.served_after(view.process(), since))
      kind.busy++;
    else
      kind.idle.push_back(i);
  }
  std::vector<Verdict> verdicts;
  for (const auto& [name, kind] : kinds)
    if (kind.idle.size() == 1 && kind.busy >= 2)
      verdicts.push_back(guess(tasks, kind.idle.front(), Verdict::NOT_SERVED,
                               "it has begun to serve nothing meanwhile, and all others of its kind have"));
  return verdicts;
}

}  // namespace

std::vector<Verdict> verdicts_without_targets(const OpenTasks& tasks, const Movement& movement) {
  std::vector<Verdict> verdicts = process_verdicts(tasks);
  if (!verdicts.empty()) return verdicts;
  std::vector<Standing> standing = standing_tasks(tasks);
  // Who does not report may have ended, and what it did with it.
  std::erase_if(standing,
                [&](const Standing& each) { return tasks.processes()[tasks[each.task].process].silent; });
  if (standing.empty()) return {};
  std::vector<uint32_t> least =
      least_progressed(without_targets(standing, global_model(tasks, standing, true)));
  std::erase_if(least, [&](uint32_t index) { return standing[index].waits_for_others; });
  if (!least.empty()) return verdicts_of(tasks, standing, least);
  verdicts = silent_servers(tasks);
  if (!verdicts.empty()) return verdicts;
  Duration longest{};
  for (const Standing& each : standing)
    longest = std::max(longest, tasks[each.task].still);
  if (longest < kIdle) return {};
  return idle_servers(tasks, movement, tasks.snapshot().taken - longest);
}

}  // namespace kintsugi::progress
