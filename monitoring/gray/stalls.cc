#include "monitoring/gray/stalls.h"

#include <algorithm>

#include <boost/math/distributions/binomial.hpp>
#include <fmt/format.h>

namespace kintsugi::gray {
void StallWatch::take(const std::vector<Disk>& disks) {
  std::map<Key, Known> known;
  for (const Disk& disk : disks) {
    const Key key{disk.of.process, disk.name};
    const auto before = known_.find(key);
    Known& one = known[key] = before == known_.end() ? Known{} : std::move(before->second);
    if (disk.lacks_processor && before != known_.end()) one.not_its += disk.stalls - one.last.stalls;
    one.last = disk;
    one.growth.add(disk.at, disk.stalls - std::min(disk.stalls, one.not_its));
  }
  known_ = std::move(known);
}

void StallWatch::tell_apart(TimePoint now) {
  std::map<std::string, std::vector<Moment>> stalls;  // by machine, in the order of time
  for (const auto& [key, one] : known_)
    if (!one.last.machine.empty())
      for (const TimePoint at : one.growth.moments())
        stalls[one.last.machine].push_back({key.first, at});
  for (auto& [machine, of] : stalls)
    std::ranges::sort(of, {}, &Moment::at);
  for (auto& [key, one] : known_)
    tell_apart(one, key.first, stalls[one.last.machine], now);
}

void StallWatch::tell_apart(Known& one, uint64_t process, const std::vector<Moment>& stalls,
                            TimePoint now) const {
  size_t times = 0;
  one.shared = 0;
  TimePoint began{};
  bool is_shared = false;
  for (const TimePoint at : one.growth.moments()) {
    if (now - at < settings_.together) break;  // others may not have told theirs yet
    if (times == 0 || at - began >= RecentGrowth::kApart) {
      began = at;
      is_shared = false;
      ++times;
    }
    const bool others_too = std::ranges::any_of(stalls, [&](const Moment& other) {
      return other.process != process && std::chrono::abs(other.at - at) <= settings_.together;
    });
    if (is_shared || !others_too) continue;
    is_shared = true;
    ++one.shared;
  }
  one.own.times = times;
  if (one.shared > 0 && chance(one, process, stalls) > settings_.by_chance) one.shared = 0;
  one.own.times -= one.shared;
}

double StallWatch::chance(const Known& one, uint64_t process, const std::vector<Moment>& stalls) const {
  Duration covered{};  // so much of the window lies beside a stall of another server
  TimePoint until{};
  for (const Moment& other : stalls) {
    if (other.process == process) continue;
    const TimePoint from = std::max(until, other.at - settings_.together);
    until = std::max(until, other.at + settings_.together);
    covered += until - from;
  }
  const double share = std::min(1.0, to_seconds(covered) / to_seconds(RecentGrowth::kWindow));
  if (share >= 1) return 1;
  const boost::math::binomial_distribution<> by_chance(static_cast<double>(one.own.times), share);
  return boost::math::cdf(boost::math::complement(by_chance, static_cast<double>(one.shared) - 1));
}

bool StallWatch::most_do_not(const std::string& kind, size_t least, const std::string& but_machine) const {
  std::vector<size_t> times;
  for (const auto& [key, one] : known_)
    if (one.last.of.kind == kind && (but_machine.empty() || one.last.machine != but_machine))
      times.push_back(one.growth.times());
  if (times.size() < least) return false;
  // One of them may be the disk itself, which is among the most.
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>((times.size() - 1) / 2);
  std::ranges::nth_element(times, middle);
  return *middle <= settings_.of_peers;
}

void StallWatch::judge(Alarm& alarm, bool others_do_not, TimePoint now) const {
  const bool stalls = alarm.times >= (alarm.stands ? 1 : settings_.times) && others_do_not;
  if (stalls && !alarm.stands) alarm.since = now;
  alarm.stands = stalls;
}

void StallWatch::judge_machines(TimePoint now) {
  std::map<std::string, Machine> machines;
  for (const auto& [key, one] : known_) {
    if (one.shared == 0) continue;
    Machine& machine = machines[one.last.machine];
    if (one.shared > machine.alarm.times) machine = {.disk = one.last, .alarm = {.times = one.shared}};
  }
  for (auto& [name, machine] : machines) {
    const auto before = machines_.find(name);
    if (before != machines_.end()) {
      machine.alarm.stands = before->second.alarm.stands;
      machine.alarm.since = before->second.alarm.since;
    }
    judge(machine.alarm, most_do_not(machine.disk.of.kind, settings_.least_peers, name), now);
  }
  machines_ = std::move(machines);
}

void StallWatch::look(const std::vector<Disk>& disks, TimePoint now) {
  take(disks);
  tell_apart(now);
  std::map<std::string, bool> others_do_not;  // by kind of process
  for (auto& [key, one] : known_) {
    const std::string& kind = one.last.of.kind;
    const auto known = others_do_not.find(kind);
    const bool do_not =
        known != others_do_not.end() ? known->second : most_do_not(kind, settings_.least_peers + 1, "");
    others_do_not[kind] = do_not;
    judge(one.own, do_not, now);
  }
  judge_machines(now);
}

std::vector<proto::Verdict> StallWatch::alarms(TimePoint now) const {
  std::vector<proto::Verdict> found;
  for (const auto& [key, one] : known_) {
    if (!one.own.stands) continue;
    proto::Verdict verdict = pauses(one.last.of, now - one.own.since, proto::Verdict::LIKELY);
    verdict.set_device(one.last.name);
    verdict.add_why(
        fmt::format("in the last minute {} stalls: requests to it took half a second or longer, "
                    "while most other disks had none",
                    one.own.times));
    found.push_back(std::move(verdict));
  }
  for (const auto& [name, machine] : machines_) {
    if (!machine.alarm.stands) continue;
    proto::Verdict verdict =
        pauses({.name = "machine " + machine.disk.host}, now - machine.alarm.since, proto::Verdict::LIKELY);
    // Which of the disks stalls most changes while the alarm stands.
    verdict.set_region("disks of its servers");
    verdict.add_why(
        fmt::format("in the last minute {} stalls of {} came together with stalls of other servers "
                    "of this machine, while most disks of other machines had none",
                    machine.alarm.times, machine.disk.of.name));
    found.push_back(std::move(verdict));
  }
  return found;
}

}  // namespace kintsugi::gray
