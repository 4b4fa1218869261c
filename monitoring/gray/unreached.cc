#include "monitoring/gray/unreached.h"

#include <algorithm>

#include <fmt/format.h>

#include "common/proto/verdicts.h"

namespace kintsugi::gray {

void UnreachedWatch::look(const std::vector<Checks>& checks, const std::map<std::string, Reachable>& peers,
                          TimePoint now) {
  take(checks, now);
  forget(peers, now);
  std::map<std::string, Alarm> alarms = sum(cut_off_callers(), now);
  std::erase_if(alarms, [&](const auto& one) { return !is_alarm(one.second, alarms_.contains(one.first)); });
  for (auto& [peer, alarm] : alarms) {
    const auto before = alarms_.find(peer);
    alarm.since = before == alarms_.end() ? now : before->second.since;
  }
  alarms_ = std::move(alarms);
}

void UnreachedWatch::hear(Attempt attempt, TimePoint now) {
  if (attempts_ >= kMostAttempts) return;
  ++attempts_;
  events_.push_back({now, now - attempt.waited, attempt.process, std::move(attempt.caller),
                     std::move(attempt.peer),
                     attempt.given_up ? proto::SightCheck::UNCONNECTED : proto::SightCheck::ANSWERED, true});
}

void UnreachedWatch::take(const std::vector<Checks>& checks, TimePoint now) {
  std::map<uint64_t, Told> told;
  for (const Checks& of : checks) {
    const auto before = told_.find(of.process);
    Told& last = told[of.process] = before == told_.end() ? Told{} : before->second;
    // What is told now for the first time ended after the report before, however late this one is.
    const TimePoint began = last.at - settings_.lasts;
    last.at = of.at;
    for (const proto::SightCheck& check : of.latest) {
      if (check.number() <= last.number) continue;
      last.number = check.number();
      events_.push_back({now, began, of.process, of.caller, check.peer(), check.outcome()});
    }
  }
  told_ = std::move(told);
}

void UnreachedWatch::forget(const std::map<std::string, Reachable>& peers, TimePoint now) {
  std::map<std::string, TimePoint> there;
  for (const auto& [address, peer] : peers) {
    const auto before = there_.find(address);
    const TimePoint known = before == there_.end() ? TimePoint{} : before->second;
    there[address] = peer.reports ? std::max(peer.since, known) : now;
  }
  there_ = std::move(there);
  std::erase_if(events_, [&](const Event& event) {
    const auto peer = there_.find(event.peer);
    return now - event.at > settings_.over || (peer != there_.end() && event.began < peer->second);
  });
  attempts_ = static_cast<size_t>(std::ranges::count_if(events_, &Event::by_command));
}

std::set<uint64_t> UnreachedWatch::cut_off_callers() const {
  struct Asked {
    std::set<std::string_view> all, failed;
  };
  std::map<uint64_t, Asked> callers;
  for (const Event& event : events_) {
    Asked& asked = callers[event.process];
    asked.all.insert(event.peer);
    if (event.failed()) asked.failed.insert(event.peer);
  }
  std::set<uint64_t> cut_off;
  for (const auto& [process, asked] : callers)
    if (2 * asked.failed.size() > asked.all.size()) cut_off.insert(process);
  return cut_off;
}

std::map<std::string, UnreachedWatch::Alarm> UnreachedWatch::sum(const std::set<uint64_t>& without,
                                                                 TimePoint now) const {
  std::map<std::string, Alarm> alarms;
  for (const Event& event : events_) {
    if (without.contains(event.process)) continue;
    Alarm& alarm = alarms[event.peer];
    if (event.by_command) {
      if (event.failed()) alarm.commands.insert(event.caller);
      continue;
    }
    ++alarm.checks;
    const bool is_recent = now - event.at <= settings_.lately;
    alarm.checks_lately += is_recent ? 1 : 0;
    if (!event.failed()) continue;
    alarm.failed_lately += is_recent ? 1 : 0;
    ++alarm.failed;
    alarm.unconnected += event.outcome == proto::SightCheck::UNCONNECTED ? 1 : 0;
    alarm.callers.emplace(event.process, event.caller);
  }
  return alarms;
}

bool UnreachedWatch::is_alarm(const Alarm& alarm, bool before) const {
  const double share = alarm.share();
  // Checks by which it answers all the others outweigh what commands say.
  const bool commands_agree =
      alarm.commands.size() >= settings_.commands && (alarm.checks == 0 || share >= settings_.clear);
  // What failed while it was down, or heard nothing, says nothing of now.
  const bool is_well = alarm.checks_lately >= settings_.well && alarm.failed_lately == 0;
  if (before || commands_agree)
    return commands_agree || (alarm.failed > 0 && share >= settings_.clear && !is_well);
  return alarm.failed >= settings_.failed && alarm.callers.size() >= settings_.callers &&
         share >= settings_.share && alarm.failed_lately > 0 &&
         static_cast<double>(alarm.failed_lately) >=
             settings_.share * static_cast<double>(alarm.checks_lately);
}

std::vector<proto::Verdict> UnreachedWatch::alarms(TimePoint now) const {
  std::vector<proto::Verdict> found;
  for (const auto& [address, alarm] : alarms_) {
    const bool is_sure =
        alarm.callers.size() >= settings_.sure_callers &&
        static_cast<double>(alarm.failed) >= settings_.share_sure * static_cast<double>(alarm.checks);
    proto::Verdict verdict;
    verdict.set_kind(proto::Verdict::UNREACHED);
    verdict.set_server(address);
    verdict.set_region(alarm.failed == 0                      ? "requests of commands"
                       : 2 * alarm.unconnected > alarm.failed ? "new connections"
                                                              : "long messages");
    verdict.set_since_ns(static_cast<uint64_t>((now - alarm.since).count()));
    verdict.set_confidence(is_sure ? proto::Verdict::CERTAIN : proto::Verdict::LIKELY);
    verdict.set_probability(is_sure ? 0.995 : 0.95);
    if (!alarm.commands.empty())
      verdict.add_why(fmt::format("{} commands could not dial it, or gave up", alarm.commands.size()));
    if (alarm.failed > 0)
      verdict.add_why(fmt::format("{} of {} checks of it failed in the last {:.0f} s, by {} servers",
                                  alarm.failed, alarm.checks, to_seconds(settings_.over),
                                  alarm.callers.size()));
    for (const auto& [process, name] : alarm.callers) {
      verdict.add_servers_waiting(name);
      proto::add_waiting(verdict, process);
    }
    found.push_back(std::move(verdict));
  }
  return found;
}

}  // namespace kintsugi::gray
