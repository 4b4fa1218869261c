#include "monitoring/progress/slowness/short_machines.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "common/base/statistics.h"
#include "common/proto/verdicts.h"

namespace kintsugi::progress {
namespace {

using proto::kMostNames;
using proto::Verdict;

/// Shares of the time that somebody on the machine waited for a processor: above the first the machine is short of
/// processors beyond doubt, below the second nobody would call it so.
constexpr double kCertainPressure = 0.5, kLeastPressure = 0.1;

/// Times what the lack of a processor does to others of a machine.
constexpr double kByFar = 4;
/// Lines of what a lack explains.
constexpr size_t kMostExplained = 5;

/// For people, as verdicts call it. Empty: the process does not tell where it runs.
std::string machine_name(const model::ProcessView& view) {
  const std::string& name = view.last().host().empty() ? view.last().system().machine() : view.last().host();
  return name.empty() ? "" : "machine " + name;
}

struct Sufferer {
  const model::ProcessView* view;
  ProcessorShares::Share share;
};

/// The processes of a machine that suffer, worst first.
std::vector<Sufferer> sufferers(const std::string& machine, TimePoint since, const ProcessorShares& shares,
                                const std::map<uint64_t, const model::ProcessView*>& views) {
  std::vector<Sufferer> found;
  for (const uint64_t process : shares.on_machine(machine)) {
    const ProcessorShares::Share share = shares.since(process, since);
    const auto view = views.find(process);
    if (share.suffers() && view != views.end()) found.push_back({view->second, share});
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const Sufferer& a, const Sufferer& b) { return a.share.delayed > b.share.delayed; });
  return found;
}

/// One process whose work takes longer by the lack of a processor than that of the others there, and by far.
bool suffers_alone(const std::string& machine, TimePoint since, const std::vector<Sufferer>& suffering,
                   const ProcessorShares& shares) {
  if (suffering.size() <= 1) return suffering.size() == 1;
  const auto stretched = [](const ProcessorShares::Share& share) {
    return share.ran > 0 ? (share.ran + share.delayed) / share.ran : 1;
  };
  std::vector<double> others;
  for (const uint64_t process : shares.on_machine(machine))
    if (process != suffering.front().view->process())
      others.push_back(stretched(shares.since(process, since)));
  return stretched(suffering.front().share) >= kByFar * median_of(others);
}

std::string told(const Sufferer& sufferer) {
  return fmt::format("{} could have run {:.1f} % of the time, and had no processor for {:.0f} % of that",
                     sufferer.view->display(), 100 * (sufferer.share.ran + sufferer.share.delayed),
                     100 * sufferer.share.of_busy());
}

}  // namespace

std::vector<Verdict> short_machines(const std::vector<StarvedProcess>& starved, const ProcessorShares& shares,
                                    const model::Snapshot& snapshot) {
  std::map<uint64_t, const model::ProcessView*> views;
  for (const auto& view : snapshot.processes)
    views[view->process()] = view.get();
  std::map<std::string, StarvedProcess> worst;  // key: machine
  for (const StarvedProcess& process : starved) {
    const auto [known, is_new] = worst.emplace(shares.machine_of(process.process), process);
    if (is_new) continue;
    known->second.since = std::min(known->second.since, process.since);
    if (process.excused <= known->second.excused) continue;
    const TimePoint since = known->second.since;
    known->second = process;
    known->second.since = since;
  }
  std::vector<Verdict> verdicts;
  for (const auto& [machine, process] : worst) {
    const auto view = views.find(process.process);
    if (view == views.end()) continue;
    const std::vector<Sufferer> suffering = sufferers(machine, process.since, shares, views);
    const double pressure = shares.since(process.process, process.since).pressure;
    const bool alone = suffers_alone(machine, process.since, suffering, shares);
    const model::ProcessView& named = alone ? *suffering.front().view : *view->second;
    Verdict verdict;
    verdict.set_kind(alone ? Verdict::RESOURCE : Verdict::HOST);
    if (alone) {
      verdict.set_server(named.display());
      verdict.set_server_id(named.last().server_id());
      verdict.set_process(named.process());
      verdict.set_process_kind(named.last().kind());
    } else {
      verdict.set_server(machine_name(named));
      for (const Sufferer& sufferer : suffering) {
        proto::add_waiting(verdict, sufferer.view->process());
        if (verdict.servers_waiting_size() < kMostNames)
          verdict.add_servers_waiting(sufferer.view->display());
      }
    }
    verdict.set_since_ns(
        static_cast<uint64_t>(std::max<int64_t>(0, (snapshot.taken - process.since).count())));
    const bool is_certain =
        !suffering.empty() && pressure >= kCertainPressure && process.excused >= process.waited_too_long;
    const bool is_likely = !suffering.empty() && pressure >= kLeastPressure;
    verdict.set_confidence(is_certain ? Verdict::CERTAIN : is_likely ? Verdict::LIKELY : Verdict::UNSURE);
    verdict.set_probability(is_certain ? 0.995 : is_likely ? 0.95 : 0.5);
    verdict.add_why(
        fmt::format("others waited {:.2f} s longer for {} in each second than they used to; the lack of a "
                    "processor accounts for {:.2f} s",
                    process.waited_too_long, view->second->display(), process.excused));
    for (size_t i = 0; i < std::min<size_t>(suffering.size(), 3); ++i)
      verdict.add_why(told(suffering[i]));
    if (pressure > 0)
      verdict.add_why(fmt::format("some task on the machine waited for a processor for {:.0f} % of the time",
                                  100 * pressure));
    verdicts.push_back(std::move(verdict));
  }
  return verdicts;
}

void tell_what_shortages_explain(const std::vector<Verdict>& excused, const model::Snapshot& snapshot,
                                 std::vector<Verdict>& verdicts) {
  for (Verdict& verdict : verdicts) {
    // A RESOURCE verdict with a region is on that: memory.
    const bool is_of_process = verdict.kind() == Verdict::RESOURCE && verdict.region().empty();
    if (verdict.kind() != Verdict::HOST && !is_of_process) continue;
    size_t count = 0;
    for (const Verdict& one : excused) {
      const int view = snapshot.index_of(one.process());
      if (view < 0) continue;
      const bool is_its = is_of_process ? verdict.process() == one.process()
                                        : verdict.server() == machine_name(*snapshot.processes[view]);
      if (!is_its || ++count > kMostExplained) continue;
      verdict.add_why(
          fmt::format("it explains of {}: {}", one.server(), one.why_size() > 0 ? one.why(0) : ""));
    }
    if (count > kMostExplained)
      verdict.add_why(fmt::format("and {} more of the kind", count - kMostExplained));
  }
}

}  // namespace kintsugi::progress
