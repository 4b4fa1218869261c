#include "monitoring/progress/slowness/starved.h"

#include <algorithm>

#include <fmt/format.h>

#include "common/base/statistics.h"

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

}  // namespace kintsugi::progress
