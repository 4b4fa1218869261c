#include "monitoring/progress/waits/process_verdicts.h"

#include <algorithm>

namespace kintsugi::progress {

using proto::Verdict;

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

std::vector<Verdict> process_verdicts(const OpenTasks& tasks) {
  std::vector<Verdict> verdicts;
  for (size_t i = 0; i < tasks.processes().size(); i++) {
    const model::ProcessView& view = *tasks.snapshot().processes[i];
    const ProcessState& state = tasks.processes()[i];
    if (state.spinning) {
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
    // One that operators said would be away is missed by those who wait for it, if anybody does.
    if (life == nullptr || life->liveness == model::Liveness::kAlive || life->in_maintenance) continue;
    Verdict verdict = verdict_of_process(tasks, i, Verdict::SILENT);
    verdict.set_since_ns(static_cast<uint64_t>(tasks.snapshot().silent(view).count()));
    verdict.add_why("it does not report, and the metaserver misses its heartbeats");
    verdicts.push_back(std::move(verdict));
  }
  return verdicts;
}

}  // namespace kintsugi::progress
