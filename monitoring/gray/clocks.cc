#include "monitoring/gray/clocks.h"

#include <algorithm>

#include <fmt/format.h>

namespace kintsugi::gray {
namespace {

std::string text(Duration time) {
  return fmt::format("{:.1f} s", to_seconds(std::chrono::abs(time)));
}

}  // namespace

void ClockWatch::look(const std::vector<WallClock>& clocks, TimePoint now) {
  std::map<uint64_t, Known> known;
  for (const WallClock& clock : clocks) {
    const auto before = known_.find(clock.who.process);
    const bool is_new = before == known_.end();
    Known& one = known[clock.who.process] = is_new ? Known{} : std::move(before->second);
    if (!is_new && clock.jumps > one.last.jumps) {
      one.jumped = clock.jumped - one.last.jumped;
      one.jumped_at = now;
    }
    if (now - one.jumped_at > RecentGrowth::kWindow) one.jumped = {};
    one.reports += !is_new && clock.at > one.last.at ? 1 : 0;
    one.last = clock;
  }
  known_ = std::move(known);
  const Duration usual = this->usual();
  const auto agreeing = static_cast<size_t>(std::ranges::count_if(known_, [&](const auto& one) {
    return std::chrono::abs(one.second.last.ahead - usual) < settings_.agrees;
  }));
  // Nobody knows which one of two halves is wrong.
  const bool is_known = known_.size() >= settings_.processes && 2 * agreeing > known_.size();
  for (auto& [process, one] : known_) {
    one.off = one.last.ahead - usual;
    const Duration off = std::chrono::abs(one.off);
    if (off < (one.differs ? settings_.agrees : settings_.differs)) {
      one.reports = 0;
      one.differs = false;
    } else if (!one.differs && one.reports >= settings_.reports && is_known) {
      one.differs = true;
      one.since = now;
    }
  }
}

Duration ClockWatch::usual() const {
  std::vector<Duration> all;
  for (const auto& [process, one] : known_)
    all.push_back(one.last.ahead);
  if (all.empty()) return {};
  const auto middle = all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2);
  std::ranges::nth_element(all, middle);
  return *middle;
}

std::vector<proto::Verdict> ClockWatch::alarms(TimePoint now) const {
  std::map<std::string, std::vector<const Known*>> wrong;  // by machine
  std::map<std::string, size_t> processes;
  for (const auto& [process, one] : known_) {
    ++processes[one.last.machine];
    if (one.differs || one.jumped_lately()) wrong[one.last.machine].push_back(&one);
  }
  std::vector<proto::Verdict> found;
  for (const auto& [machine, all] : wrong) {
    const bool is_machine = all.size() > 1 && all.size() == processes[machine];
    for (const Known* one : all) {
      const TimePoint since = one->differs ? one->since : one->jumped_at;
      if (now - since < settings_.settles) continue;
      const Party who = is_machine ? Party{.name = "machine " + one->last.host} : one->last.who;
      proto::Verdict verdict = about(who, proto::Verdict::CLOCK, now - since, proto::Verdict::CERTAIN);
      verdict.set_masked(true);
      if (one->jumped_lately())
        verdict.add_why(fmt::format("its wall clock jumped {} by {}, as the monotonic clock beside it shows",
                                    one->jumped > Duration{} ? "ahead" : "back", text(one->jumped)));
      if (one->differs)
        verdict.add_why(fmt::format("its wall clock is {} {} most others", text(one->off),
                                    one->off > Duration{} ? "ahead of" : "behind"));
      found.push_back(std::move(verdict));
      if (is_machine) break;
    }
  }
  return found;
}

}  // namespace kintsugi::gray
