#include "monitoring/gray/pauses.h"

#include <algorithm>

#include <fmt/format.h>

#include "common/base/statistics.h"

namespace kintsugi::gray {

void PauseWatch::look(const std::vector<Pausing>& processes, TimePoint now) {
  std::map<uint64_t, Known> known;
  for (const Pausing& process : processes) {
    const auto before = known_.find(process.who.process);
    Known& one = known[process.who.process] = before == known_.end() ? Known{} : std::move(before->second);
    one.last = process;
    one.growth.add(process.at, process.stood_still_ns);
    const TimePoint from = now - settings_.over;
    one.of = one.growth.known(from);
    one.late = one.of < settings_.least
                   ? 0
                   : static_cast<double>(one.growth.grown(from)) / static_cast<double>(one.of.count());
  }
  known_ = std::move(known);
  for (auto& [id, one] : known_) {
    if (one.of < settings_.least) continue;
    const double others = one.last.machine_lacks_processor ? of_machine(id) : 0;
    judge(one, std::max(one.last.delayed, others), now);
  }
}

double PauseWatch::of_machine(uint64_t process) const {
  const std::string& machine = known_.at(process).last.machine;
  std::vector<double> late;
  for (const auto& [id, one] : known_)
    if (id != process && one.last.machine == machine) late.push_back(one.late);
  return median_of(late);
}

void PauseWatch::judge(Known& one, double explained, TimePoint now) const {
  one.share = one.late - explained;
  const bool again_and_again = one.growth.times() >= settings_.times;
  const bool begins = one.share >= settings_.raise && again_and_again;
  if (!one.pauses && begins) one.since = now - one.of;
  one.pauses = one.pauses ? one.share >= settings_.clear : begins;
  one.excused = !one.pauses && one.late >= settings_.raise && again_and_again;
}

std::vector<proto::Verdict> PauseWatch::excused(TimePoint now) const {
  std::vector<proto::Verdict> found;
  for (const auto& [id, one] : known_) {
    if (!one.excused) continue;
    found.push_back(gray::pauses(one.last.who, now - one.since, proto::Verdict::UNSURE));
    found.back().add_why(fmt::format("by its own clock it did nothing for {:.0f} % of the last {:.0f} s",
                                     100 * one.late, to_seconds(settings_.over)));
  }
  return found;
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
    verdict.add_why(fmt::format("by its own clock it did nothing for {:.0f} % of the last {:.0f} s",
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
