#include "monitoring/gray/clocks.h"

#include <cstdlib>
#include <set>

#include <fmt/format.h>

namespace kintsugi::gray {

void ClockWatch::look(const std::vector<Clocks>& processes, TimePoint now) {
  std::map<uint64_t, Known> known;
  for (const Clocks& process : processes) {
    const auto before = known_.find(process.who.process);
    Known& one = known[process.who.process] = before == known_.end() ? Known{} : before->second;
    if (before != known_.end()) {
      // Unsigned, so that no report overflows it.
      const auto wall = static_cast<uint64_t>(process.wall_ns) - static_cast<uint64_t>(one.last.wall_ns);
      const auto passed =
          static_cast<uint64_t>(process.uptime_ns) - static_cast<uint64_t>(one.last.uptime_ns);
      const auto jumped = static_cast<int64_t>(wall - passed);
      const int64_t least = settings_.least.count();
      if (jumped >= least || jumped <= -least) {
        one.jumped_ns = jumped;
        one.at = now;
      }
    }
    one.last = process;
  }
  known_ = std::move(known);
}

std::vector<proto::Verdict> ClockWatch::alarms(TimePoint now) const {
  std::vector<proto::Verdict> found;
  std::set<std::string> machines;
  for (const auto& [process, one] : known_) {
    if (one.at == TimePoint{} || now - one.at > settings_.told_for) continue;
    if (!one.last.machine.empty() && !machines.insert(one.last.machine).second) continue;
    proto::Verdict verdict =
        verdict_on(one.last.who, proto::Verdict::CLOCK, now - one.at, proto::Verdict::CERTAIN);
    verdict.set_masked(true);
    const double seconds = static_cast<double>(one.jumped_ns) / 1e9;
    verdict.add_why(fmt::format("its wall clock jumped {} by {:.1f} s", seconds > 0 ? "ahead" : "back",
                                std::abs(seconds)));
    found.push_back(std::move(verdict));
  }
  return found;
}

}  // namespace kintsugi::gray
