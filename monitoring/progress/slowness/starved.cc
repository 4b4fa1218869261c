#include "monitoring/progress/slowness/starved.h"

#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>

#include "common/base/statistics.h"
#include "monitoring/progress/evidence/open_tasks.h"

namespace kintsugi::progress {
namespace {

using proto::Verdict;

/// Whoever starves (ProcessorShares::Share), and waited for a processor for so much of the latest stretch of time,
constexpr double kWaitsFor = 0.8;
/// while others of its machine waited for less of it than this, lacks one for itself.
constexpr double kOthersWaitFor = 0.2;
constexpr size_t kLeastBeside = 2;
/// Its reports are rare; whoever has sent none for so long is silent, and not known to want a processor.
constexpr Duration kNotHeard = 15s;

bool others_have_theirs(uint64_t process, const ProcessorShares& shares) {
  std::vector<double> others;
  for (const uint64_t other : shares.on_machine(shares.machine_of(process)))
    if (const auto share = shares.latest(other); other != process && share.known)
      others.push_back(share.delayed);
  return others.size() >= kLeastBeside && median_of(others) <= kOthersWaitFor;
}

/// Its process had no processor for most of the time for which this disk has not answered.
bool hid_an_answer(const model::Snapshot& snapshot, const ProcessorShares& shares, const Verdict& on_disk) {
  if (on_disk.kind() != Verdict::DEVICE) return false;
  const TimePoint told = snapshot.processes[snapshot.index_of(on_disk.process())]->arrived();
  return shares.since(on_disk.process(), told - duration_of(on_disk.since_ns())).delayed >=
         ProcessorShares::kMostOfTheTime;
}

}  // namespace

std::vector<Verdict> starved_processes(const model::Snapshot& snapshot, const ProcessorShares& shares) {
  std::vector<Verdict> found;
  for (const auto& view : snapshot.processes) {
    if (view->last().last() || snapshot.silent(*view) > kNotHeard) continue;
    const ProcessorShares::Share share = shares.latest(view->process());
    if (!share.starves() || share.delayed < kWaitsFor) continue;
    if (!others_have_theirs(view->process(), shares)) continue;
    Verdict verdict;
    verdict.set_kind(Verdict::RESOURCE);
    verdict.set_server(view->display());
    verdict.set_server_id(view->last().server_id());
    verdict.set_process(view->process());
    verdict.set_process_kind(view->last().kind());
    const Duration since = std::max(share.of, shares.starves_for(view->process()));
    verdict.set_since_ns(static_cast<uint64_t>(since.count()));
    verdict.set_confidence(Verdict::CERTAIN);
    verdict.set_probability(0.995);
    verdict.add_why(fmt::format(
        "it ran for {:.1f} % of the last {:.1f} s, and waited for a processor for {:.0f} %, while "
        "most others of its machine had theirs",
        100 * share.ran, to_seconds(share.of), 100 * share.delayed));
    found.push_back(std::move(verdict));
  }
  return found;
}

void accuse_starved_instead_of_their_disks(const model::Snapshot& snapshot, const ProcessorShares& shares,
                                           std::vector<Verdict>& verdicts) {
  std::map<uint64_t, Verdict> starved;
  for (Verdict& verdict : starved_processes(snapshot, shares))
    starved.emplace(verdict.process(), std::move(verdict));
  if (starved.empty()) return;
  std::set<uint64_t> named;
  std::vector<Verdict> kept;
  for (Verdict& verdict : verdicts) {
    const auto process = starved.find(verdict.process());
    if (process != starved.end() && hid_an_answer(snapshot, shares, verdict)) {
      Verdict instead = process->second;
      instead.set_waiters(verdict.waiters());
      instead.set_masked(verdict.masked());
      instead.mutable_servers_waiting()->Swap(verdict.mutable_servers_waiting());
      instead.mutable_processes_waiting()->Swap(verdict.mutable_processes_waiting());
      instead.mutable_operations()->Swap(verdict.mutable_operations());
      instead.mutable_chain()->Swap(verdict.mutable_chain());
      verdict = std::move(instead);
    }
    const bool is_known = process != starved.end() && verdict.kind() == Verdict::RESOURCE &&
                          !named.insert(verdict.process()).second;
    if (!is_known) kept.push_back(std::move(verdict));
  }
  verdicts = std::move(kept);
}

}  // namespace kintsugi::progress
