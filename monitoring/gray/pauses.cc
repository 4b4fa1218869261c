#include "monitoring/gray/pauses.h"

#include <algorithm>

#include <fmt/format.h>

namespace kintsugi::gray {

void PauseWatch::look(const std::vector<Pausing>& processes, TimePoint now) {
  std::map<uint64_t, Known> known;
  for (const Pausing& process : processes) {
    const auto before = known_.find(process.who.process);
    Known& one = known[process.who.process] = before == known_.end() ? Known{} : std::move(before->second);
    one.last = process;
    one.growth.add(process.at, process.stood_still_ns);
    const TimePoint from = now - settings_.over;
    const Duration of = one.growth.known(from);
    if (of < settings_.least) continue;
    one.share =
        static_cast<double>(one.growth.grown(from)) / static_cast<double>(of.count()) - process.delayed;
    const bool begins = one.share >= settings_.raise && one.growth.times() >= settings_.times;
    if (!one.pauses && begins) one.since = now - of;
    one.pauses = one.pauses ? one.share >= settings_.clear : begins;
  }
  known_ = std::move(known);
}

std::vector<proto::Verdict> PauseWatch::alarms(TimePoint now) const {
  std::map<std::string, std::pair<size_t, size_t>> machines;  // those that pause, and all
  for (const auto& [id, one] : known_) {
    auto& [pausing, all] = machines[one.last.machine];
    pausing += one.pauses ? 1 : 0;
    ++all;
  }
  std::vector<proto::Verdict> found;
  for (const auto& [id, one] : known_) {
    if (!one.pauses) continue;
    const auto& [pausing, all] = machines[one.last.machine];
    const bool is_machine =
        all > 1 && static_cast<double>(pausing) > settings_.crowd * static_cast<double>(all);
    proto::Verdict verdict = gray::pauses(one.last.who, now - one.since,
                                          is_machine ? proto::Verdict::LIKELY : proto::Verdict::CERTAIN);
    verdict.set_factor(1 / std::clamp(1 - one.share, 0.05, 1.0));
    verdict.add_why(fmt::format("by its own clock it stood still for {:.0f} % of the last {:.0f} s",
                                100 * one.share, to_seconds(settings_.over)));
    if (is_machine)
      verdict.add_why(
          fmt::format("{} of {} processes of its machine do: it may be the machine", pausing, all));
    found.push_back(std::move(verdict));
  }
  std::ranges::stable_sort(found, std::greater<>(), &proto::Verdict::factor);
  return found;
}

}  // namespace kintsugi::gray
