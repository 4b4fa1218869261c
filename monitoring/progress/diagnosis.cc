#include "monitoring/progress/diagnosis.h"

#include <algorithm>

#include <fmt/format.h>

#include "common/base/hash.h"
#include "monitoring/progress/baselines.h"
#include "monitoring/progress/culprits.h"
#include "monitoring/progress/hidden_targets.h"
#include "monitoring/progress/history.h"
#include "monitoring/progress/verdicts.h"
#include "monitoring/progress/without_targets.h"

namespace kintsugi::progress {
namespace {

using proto::Verdict;

/// The windows that a slowdown needs, and one for those that are told last.
constexpr Duration kSlowAfter = 10s * (Slowdowns::kWindows + 1);

/// A loop that stands still and waits for a processor for so much of the time does not run on without end,
constexpr double kStarved = 0.7;
/// unless it had one for so long all the same: nothing that it does at one place takes that.
constexpr double kRunsOnS = 0.5;

/// Processes whose loop is held, or that nobody hears, though nobody happens to wait for them now.
void add_processes(const OpenTasks& tasks, std::vector<Verdict>& verdicts) {
  for (Verdict& verdict : process_verdicts(tasks, true)) {
    const bool is_known = std::any_of(verdicts.begin(), verdicts.end(), [&](const Verdict& known) {
      return known.process() == verdict.process() && known.device().empty() && known.peer().empty();
    });
    if (!is_known) verdicts.push_back(std::move(verdict));
  }
}

/// Of several siblings that stand still without saying what they wait for, those that are ahead of another by their counts wait for it.
void keep_least_progressed(const OpenTasks& tasks, const WaitGraph& graph, std::vector<Culprit>& culprits) {
  std::map<std::pair<uint64_t, std::string>, std::vector<size_t>> siblings;
  for (size_t i = 0; i < culprits.size(); i++) {
    const uint32_t v = culprits[i].members.front();
    const bool is_mute = culprits[i].members.size() == 1 && graph.vertices()[v].place == Place::kTask &&
                         tasks[v].top().wait() == proto::WAIT_NONE && tasks[v].root().parent() != 0;
    if (is_mute) siblings[{tasks[v].root().parent(), tasks.role(v)}].push_back(i);
  }
  std::erase_if(siblings, [](const auto& entry) { return entry.second.size() < 2; });
  if (siblings.empty()) return;
  std::map<uint32_t, Standing> standing;
  for (Standing& task : standing_tasks(tasks))
    standing.emplace(task.task, std::move(task));
  const GlobalModel model = global_model(tasks, {}, false);
  std::set<size_t> ahead;
  for (const auto& [key, members] : siblings) {
    std::vector<Standing> compared;
    for (const size_t i : members)
      compared.push_back(standing.at(culprits[i].members.front()));
    const std::vector<uint32_t> least = least_progressed_siblings(compared, model);
    for (uint32_t i = 0; i < members.size() && !least.empty(); i++)
      if (!std::binary_search(least.begin(), least.end(), i)) ahead.insert(members[i]);
  }
  std::vector<Culprit> kept;
  for (size_t i = 0; i < culprits.size(); i++)
    if (!ahead.contains(i)) kept.push_back(std::move(culprits[i]));
  culprits = std::move(kept);
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

/// Whoever stands still is not called slow, too, nor for windows that it stood still in and that are told of later.
void add_slow(const model::Snapshot& snapshot, History::State& history, std::vector<Verdict>& verdicts) {
  for (const Verdict& verdict : verdicts)
    history.stood_still[verdict.process()] = snapshot.taken;
  std::erase_if(history.stood_still,
                [&](const auto& entry) { return snapshot.taken - entry.second > kSlowAfter; });
  for (Verdict& slow : history.slowdowns.update(snapshot, history.shares))
    if (!history.stood_still.contains(slow.process())) verdicts.push_back(std::move(slow));
}

/// A loop that does not come round because it has no processor is held by nobody's code.
void tell_starved(const model::Snapshot& snapshot, const ProcessorShares& shares,
                  std::vector<Verdict>& verdicts) {
  for (Verdict& verdict : verdicts) {
    if (verdict.kind() != Verdict::RUNNING) continue;
    const auto stood = std::min<uint64_t>(verdict.since_ns(), static_cast<uint64_t>(Duration(1h).count()));
    const ProcessorShares::Share share =
        shares.since(verdict.process(), snapshot.taken - Duration(static_cast<int64_t>(stood)));
    const double ran_s = share.ran * static_cast<double>(stood) / 1e9;
    if (!share.known || share.delayed < kStarved || ran_s >= kRunsOnS) continue;
    verdict.set_kind(Verdict::RESOURCE);
    verdict.add_why(
        fmt::format("it could run, and had no processor, {:.0f} % of the time that it stands still",
                    100 * std::min(1.0, share.delayed)));
  }
}

std::vector<Verdict> from_waits(const OpenTasks& tasks, const Sojourns& sojourns, const Settings& settings,
                                History::State& history) {
  const WaitGraph graph(tasks, history);
  std::vector<Culprit> culprits = find_culprits(tasks, graph, sojourns);
  if (settings.method == Method::kWaits) keep_least_progressed(tasks, graph, culprits);
  std::vector<Verdict> verdicts = write_verdicts(tasks, graph, sojourns, culprits, settings);
  add_processes(tasks, verdicts);
  tell_starved(tasks.snapshot(), history.shares, verdicts);
  return verdicts;
}

}  // namespace

std::vector<Verdict> diagnose(const model::Snapshot& snapshot, const Settings& settings, History& history) {
  History::State& state = history.state();
  const Sojourns& sojourns = state.sojourns(snapshot);
  const OpenTasks tasks(snapshot, sojourns, settings);
  state.observe(tasks, settings);
  state.shares.update(snapshot);
  state.wanted.clear();
  const bool hidden = settings.method == Method::kTargetsHidden;
  const bool by_waits = settings.method == Method::kWaits || settings.method == Method::kWaitsOnly;
  std::vector<Verdict> verdicts = by_waits ? from_waits(tasks, sojourns, settings, state)
                                  : hidden ? verdicts_without_targets(tasks, state.movement, settings)
                                           : baseline_verdicts(tasks, settings);
  keep_lasting(tasks, settings, state, verdicts);
  if (by_waits && settings.slow) add_slow(snapshot, state, verdicts);
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
  // A server that is silent is the same whether its process is known or not: the monitor may have been started later.
  const bool is_server = verdict.server_id() != 0 || verdict.process_kind() == "metaserver";
  if (verdict.kind() == Verdict::SILENT && is_server) return mix_bits(hash ^ verdict.server_id());
  return mix_bits(hash ^ verdict.process());
}

}  // namespace kintsugi::progress
