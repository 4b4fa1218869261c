#include "monitoring/progress/baselines.h"

#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>

#include "monitoring/progress/automaded.h"
#include "monitoring/progress/prodometer.h"

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

}  // namespace

Verdict verdict_of_process(const OpenTasks& tasks, size_t index, Verdict::Kind kind) {
  const model::ProcessView& view = *tasks.snapshot().processes[index];
  Verdict verdict;
  verdict.set_kind(kind);
  verdict.set_server(view.display());
  verdict.set_server_id(view.last().server_id());
  verdict.set_process(view.process());
  verdict.set_process_kind(view.last().kind());
  verdict.set_probability(0.995);
  verdict.set_confidence(Verdict::CERTAIN);
  return verdict;
}

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
                                 const std::vector<uint32_t>& least, const Settings& settings) {
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
  if (verdicts.size() > settings.most_verdicts) verdicts.resize(settings.most_verdicts);
  return verdicts;
}

std::vector<Verdict> process_verdicts(const OpenTasks& tasks, bool loops) {
  std::vector<Verdict> verdicts;
  for (size_t i = 0; i < tasks.processes().size(); i++) {
    const model::ProcessView& view = *tasks.snapshot().processes[i];
    const ProcessState& state = tasks.processes()[i];
    if (loops && state.spinning) {
      Verdict verdict = verdict_of_process(tasks, i, Verdict::RUNNING);
      const proto::SightLoop& loop = view.last().loop();
      verdict.set_since_ns(loop.stalled_ns());
      verdict.set_region(tasks.region(static_cast<uint32_t>(i), loop.last_touch()));
      verdict.set_file(loop.last_touch().file());
      verdict.set_line(loop.last_touch().line());
      verdict.set_function(loop.last_touch().function());
      for (int s = 0; s < std::min(loop.symbols_size(), 32); s++)
        verdict.add_stack(loop.symbols(s));
      verdict.add_why("its event loop handles nothing");
      verdicts.push_back(std::move(verdict));
    }
    if (!state.silent || view.last().address().empty()) continue;
    const model::ServerLife* life = tasks.snapshot().server(view.last().address(), view.last().server_id());
    if (life == nullptr || life->liveness == model::Liveness::kAlive) continue;
    Verdict verdict = verdict_of_process(tasks, i, Verdict::SILENT);
    verdict.set_since_ns(static_cast<uint64_t>(tasks.snapshot().silent(view).count()));
    verdict.add_why("it does not report, and the metaserver misses its heartbeats");
    verdicts.push_back(std::move(verdict));
  }
  return verdicts;
}

std::vector<Verdict> baseline_verdicts(const OpenTasks& tasks, const Settings& settings) {
  if (settings.method == Method::kSilence) return process_verdicts(tasks, false);
  if (settings.method == Method::kOldestSpan) return oldest_span(tasks);
  const std::vector<Standing> standing = standing_tasks(tasks);
  if (standing.empty()) return {};
  const GlobalModel model = global_model(tasks, standing, false);
  DependenceGraph graph;
  switch (settings.method) {
    case Method::kProdometer: graph = prodometer(standing, model); break;
    case Method::kAutomaDeD: graph = automaded(standing, model, true); break;
    default: graph = automaded(standing, model, false); break;
  }
  return verdicts_of(tasks, standing, least_progressed(graph), settings);
}

}  // namespace kintsugi::progress
