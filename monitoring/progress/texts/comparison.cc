#include "monitoring/progress/texts/comparison.h"

#include "monitoring/progress/texts/automaded.h"
#include "monitoring/progress/texts/hidden_targets.h"
#include "monitoring/progress/texts/point_to_point.h"
#include "monitoring/progress/texts/prodometer.h"
#include "monitoring/progress/texts/task_verdicts.h"
#include "monitoring/progress/waits/process_verdicts.h"

namespace kintsugi::progress {
namespace {

using proto::Verdict;

std::vector<Verdict> oldest_span(const OpenTasks& tasks) {
  const std::vector<OpenTask>& all = tasks.all();
  uint32_t oldest = 0;
  bool found = false;
  for (uint32_t i = 0; i < all.size(); i++) {
    if (!all[i].stalled) continue;
    if (!found || all[i].root().age_ns() > all[oldest].root().age_ns()) oldest = i;
    found = true;
  }
  if (!found) return {};
  return {verdict_of_task(tasks, oldest)};
}

std::vector<Verdict> silent_processes(const OpenTasks& tasks) {
  std::vector<Verdict> verdicts = process_verdicts(tasks);
  std::erase_if(verdicts, [](const Verdict& verdict) { return verdict.kind() != Verdict::SILENT; });
  return verdicts;
}

}  // namespace

std::vector<Verdict> Comparison::diagnose(const model::Snapshot& snapshot) {
  const OpenTasks tasks = evidence_.observe(snapshot);
  std::vector<Verdict> found = verdicts(tasks);
  lasting_.keep(tasks, found);
  return found;
}

std::vector<Verdict> Comparison::verdicts(const OpenTasks& tasks) const {
  if (method_ == Method::kTargetsHidden) return verdicts_without_targets(tasks, evidence_.movement());
  if (method_ == Method::kOldestSpan) return oldest_span(tasks);
  if (method_ == Method::kSilence) return silent_processes(tasks);
  // What a process says of itself, or others of it, is given to all methods alike.
  if (std::vector<Verdict> found = process_verdicts(tasks); !found.empty()) return found;
  std::vector<Standing> standing = standing_tasks(tasks);
  std::erase_if(standing,
                [&](const Standing& each) { return tasks.processes()[tasks[each.task].process].silent; });
  if (standing.empty()) return {};
  const GlobalModel model = global_model(tasks, standing, true);
  const DependenceGraph graph = method_ == Method::kProdometer
                                    ? prodometer(standing, model)
                                    : automaded(standing, model, method_ == Method::kAutomaDeD);
  return verdicts_of(tasks, standing,
                     without_point_to_point(least_progressed(graph), named_waits(tasks, standing)));
}

}  // namespace kintsugi::progress
