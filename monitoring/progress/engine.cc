#include "monitoring/progress/engine.h"

#include <algorithm>
#include <string>

#include <fmt/format.h>

#include "monitoring/progress/counts/siblings.h"
#include "monitoring/progress/slowness/starved.h"
#include "monitoring/progress/waits/process_verdicts.h"
#include "monitoring/progress/waits/verdicts.h"

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
  for (Verdict& verdict : process_verdicts(tasks)) {
    const bool is_known = std::any_of(verdicts.begin(), verdicts.end(), [&](const Verdict& known) {
      return known.process() == verdict.process() && known.device().empty() && known.peer().empty();
    });
    if (!is_known) verdicts.push_back(std::move(verdict));
  }
}

/// Those that lack a processor for themselves, unless that is said of them already.
void add_starved(const model::Snapshot& snapshot, const ProcessorShares& shares,
                 std::vector<Verdict>& verdicts) {
  for (Verdict& verdict : starved_processes(snapshot, shares)) {
    const bool is_known = std::ranges::any_of(verdicts, [&](const Verdict& known) {
      return known.process() == verdict.process() &&
             (known.kind() == Verdict::RESOURCE || known.kind() == Verdict::SILENT);
    });
    if (!is_known) verdicts.push_back(std::move(verdict));
  }
}

/// Of several siblings that stand still without saying what they wait for, those that are ahead of another by their
/// counts wait for it.
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
  const GlobalModel model = GlobalModelBuilder(tasks.snapshot()).build();
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
        fmt::format("it was ready to run and had no processor for {:.0f} % of the time without progress",
                    100 * std::min(1.0, share.delayed)));
  }
}

}  // namespace

std::vector<Verdict> Engine::diagnose(const model::Snapshot& snapshot) {
  const OpenTasks tasks = evidence_.observe(snapshot);
  std::vector<Verdict> verdicts = from_waits(tasks);
  const std::set<uint64_t> on_sick_machines = machine_disks_.join(snapshot, verdicts);
  lasting_.keep(tasks, verdicts);
  // After that, so that a process is named as soon as its disk would be.
  accuse_starved_instead_of_their_disks(snapshot, evidence_.shares(), verdicts);
  add_slow(snapshot, on_sick_machines, verdicts);
  return verdicts;
}

std::vector<uint64_t> Engine::wants_to_know_of(uint64_t process) const {
  const auto wanted = wanted_.find(process);
  return wanted == wanted_.end() ? std::vector<uint64_t>{} : wanted->second;
}

std::vector<Verdict> Engine::from_waits(const OpenTasks& tasks) {
  WaitGraph graph(tasks, evidence_);
  wanted_ = std::move(graph.wanted());
  std::vector<Culprit> culprits = find_culprits(tasks, graph, evidence_.sojourns());
  if (options_.compare_siblings) keep_least_progressed(tasks, graph, culprits);
  std::vector<Verdict> verdicts = write_verdicts(tasks, graph, evidence_.sojourns(), culprits);
  add_processes(tasks, verdicts);
  tell_starved(tasks.snapshot(), evidence_.shares(), verdicts);
  add_starved(tasks.snapshot(), evidence_.shares(), verdicts);
  return verdicts;
}

/// A process that stands still is not called slow as well, nor is it for windows of that time that are told of later.
void Engine::add_slow(const model::Snapshot& snapshot, const std::set<uint64_t>& standing,
                      std::vector<Verdict>& verdicts) {
  for (const uint64_t process : standing)
    stood_still_[process] = snapshot.taken;
  for (const Verdict& verdict : verdicts)
    stood_still_[verdict.process()] = snapshot.taken;
  std::erase_if(stood_still_, [&](const auto& entry) { return snapshot.taken - entry.second > kSlowAfter; });
  for (Verdict& slow : slowdowns_.update(snapshot, evidence_.shares()))
    if (!stood_still_.contains(slow.process())) verdicts.push_back(std::move(slow));
}

}  // namespace kintsugi::progress
