#include "monitoring/progress/diagnosis.h"

#include <algorithm>

#include "common/base/hash.h"
#include "monitoring/progress/culprits.h"
#include "monitoring/progress/history.h"
#include "monitoring/progress/verdicts.h"

namespace kintsugi::progress {
namespace {

using proto::Verdict;

/// Servers that the metaserver misses and that do not report either, though nobody happens to wait for them now.
void add_missing_servers(const OpenTasks& tasks, std::vector<Verdict>& verdicts) {
  const model::Snapshot& snapshot = tasks.snapshot();
  for (size_t i = 0; i < snapshot.processes.size(); i++) {
    const model::ProcessView& view = *snapshot.processes[i];
    if (!tasks.processes()[i].silent || view.last().address().empty()) continue;
    const model::ServerLife* life = snapshot.server(view.last().address(), view.last().server_id());
    if (life == nullptr || life->liveness == model::Liveness::kAlive) continue;
    Verdict verdict;
    verdict.set_kind(Verdict::SILENT);
    verdict.set_server(view.display());
    verdict.set_server_id(view.last().server_id());
    verdict.set_process(view.process());
    verdict.set_process_kind(view.last().kind());
    verdict.set_since_ns(static_cast<uint64_t>(snapshot.silent(view).count()));
    verdict.set_probability(0.995);
    verdict.set_confidence(Verdict::CERTAIN);
    verdict.add_why("it does not report, and the metaserver misses its heartbeats");
    const bool is_known = std::any_of(verdicts.begin(), verdicts.end(), [&](const Verdict& known) {
      return known.process() == verdict.process() && known.kind() == Verdict::SILENT;
    });
    if (!is_known) verdicts.push_back(std::move(verdict));
  }
}

/// Loops that are held, though nobody happens to wait for their process now.
void add_running_loops(const OpenTasks& tasks, std::vector<Verdict>& verdicts) {
  for (size_t i = 0; i < tasks.processes().size(); i++) {
    if (!tasks.processes()[i].spinning) continue;
    const model::ProcessView& view = *tasks.snapshot().processes[i];
    const bool is_known = std::any_of(verdicts.begin(), verdicts.end(), [&](const Verdict& known) {
      return known.process() == view.process() && known.device().empty() && known.peer().empty();
    });
    if (is_known) continue;
    Verdict verdict;
    const proto::SightLoop& loop = view.last().loop();
    verdict.set_kind(Verdict::RUNNING);
    verdict.set_server(view.display());
    verdict.set_server_id(view.last().server_id());
    verdict.set_process(view.process());
    verdict.set_process_kind(view.last().kind());
    verdict.set_since_ns(loop.stalled_ns());
    verdict.set_region(tasks.region(static_cast<uint32_t>(i), loop.last_touch()));
    verdict.set_file(loop.last_touch().file());
    verdict.set_line(loop.last_touch().line());
    verdict.set_function(loop.last_touch().function());
    for (int s = 0; s < std::min(loop.symbols_size(), 32); s++)
      verdict.add_stack(loop.symbols(s));
    verdict.set_probability(0.995);
    verdict.set_confidence(Verdict::CERTAIN);
    verdict.add_why("its event loop handles nothing");
    verdicts.push_back(std::move(verdict));
  }
}

/// Keeps those that have stood for enough rounds: in successive reports of their process, or in successive snapshots for who does not report.
void keep_lasting(const OpenTasks& tasks, const Settings& settings, History::State& history,
                  std::vector<Verdict>& verdicts) {
  const TimePoint now = tasks.snapshot().taken;
  std::map<uint64_t, uint64_t> sequences;
  for (size_t i = 0; i < tasks.processes().size(); i++)
    if (!tasks.processes()[i].silent)
      sequences[tasks.snapshot().processes[i]->process()] = tasks.snapshot().processes[i]->last().sequence();
  std::map<uint64_t, History::State::Candidate> standing;
  std::erase_if(verdicts, [&](const Verdict& verdict) {
    const uint64_t id = identity(verdict);
    const auto before = history.candidates.find(id);
    History::State::Candidate candidate;
    if (before != history.candidates.end()) candidate = before->second;
    const auto reported = sequences.find(verdict.process());
    const uint64_t sequence = reported == sequences.end() ? 0 : reported->second;
    const bool is_new = candidate.rounds == 0 || (sequence != 0 && sequence != candidate.sequence) ||
                        (sequence == 0 && now - candidate.seen >= 500ms);
    if (is_new) {
      candidate.rounds++;
      candidate.sequence = sequence;
      candidate.seen = now;
    }
    if (standing.size() < History::State::kMaxCandidates) standing[id] = candidate;
    return candidate.rounds < settings.rounds;
  });
  history.candidates = std::move(standing);
}

std::vector<Verdict> from_waits(const OpenTasks& tasks, const Sojourns& sojourns, const Settings& settings,
                                History::State& history) {
  const WaitGraph graph(tasks, history);
  std::vector<Verdict> verdicts =
      write_verdicts(tasks, graph, sojourns, find_culprits(tasks, graph, sojourns), settings);
  add_running_loops(tasks, verdicts);
  add_missing_servers(tasks, verdicts);
  return verdicts;
}

}  // namespace

std::vector<Verdict> diagnose(const model::Snapshot& snapshot, const Settings& settings, History& history) {
  History::State& state = history.state();
  const Sojourns& sojourns = state.sojourns(snapshot);
  const OpenTasks tasks(snapshot, sojourns, settings);
  state.observe(tasks, settings);
  state.wanted.clear();
  std::vector<Verdict> verdicts = from_waits(tasks, sojourns, settings, state);
  keep_lasting(tasks, settings, state, verdicts);
  return verdicts;
}

uint64_t identity(const Verdict& verdict) {
  uint64_t hash = mix_bits(static_cast<uint64_t>(verdict.kind()) + 1);
  for (const std::string* text : {&verdict.server(), &verdict.peer(), &verdict.device()})
    hash = mix_bits(hash ^ hash_name(*text));
  // Which of several tasks is shown changes while the same process, device or link is to blame.
  const bool is_region = verdict.kind() == Verdict::STUCK || verdict.kind() == Verdict::CLIENT ||
                         verdict.kind() == Verdict::SLOW || verdict.kind() == Verdict::BEHAVIOUR;
  if (is_region) hash = mix_bits(hash ^ hash_name(verdict.region()));
  return mix_bits(hash ^ verdict.process());
}

}  // namespace kintsugi::progress
