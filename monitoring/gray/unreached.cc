#include "monitoring/gray/unreached.h"

#include <fmt/format.h>

namespace kintsugi::gray {

void UnreachedWatch::look(const std::vector<Checks>& totals, TimePoint now) {
  for (const Checks& total : totals) {
    Pair& pair = pairs_[total.of_address][total.process];
    pair.caller = total.caller;
    pair.checks.add(total.at, total.checks);
    pair.unconnected.add(total.at, total.unconnected);
    pair.cut.add(total.at, total.cut);
  }
  for (auto& [address, callers] : pairs_)
    std::erase_if(callers,
                  [&](const auto& one) { return now - one.second.checks.latest() > RecentGrowth::kWindow; });
  const TimePoint from = now - settings_.over;
  const std::set<uint64_t> cut_off = cut_off_callers(from);
  std::map<std::string, Alarm> alarms;
  for (const auto& [address, callers] : pairs_) {
    Alarm alarm = sum(callers, from, cut_off);
    const auto before = alarms_.find(address);
    const double share =
        alarm.checks == 0 ? 0 : static_cast<double>(alarm.failed) / static_cast<double>(alarm.checks);
    const bool begins = alarm.failed >= settings_.failed && alarm.callers.size() >= settings_.callers &&
                        share >= settings_.share;
    const bool stands = before != alarms_.end() && alarm.failed > 0 && share >= settings_.clear;
    if (!begins && !stands) continue;
    alarm.since = before == alarms_.end() ? now : before->second.since;
    alarms.emplace(address, std::move(alarm));
  }
  alarms_ = std::move(alarms);
  std::erase_if(pairs_, [](const auto& one) { return one.second.empty(); });
}

std::set<uint64_t> UnreachedWatch::cut_off_callers(TimePoint from) const {
  std::map<uint64_t, std::pair<size_t, size_t>> addresses;  // that it could not reach, and all that it asked
  for (const auto& [address, callers] : pairs_) {
    for (const auto& [process, pair] : callers) {
      if (pair.checks.grown(from) == 0) continue;
      auto& [failed, asked] = addresses[process];
      failed += pair.unconnected.grown(from) + pair.cut.grown(from) > 0 ? 1 : 0;
      ++asked;
    }
  }
  std::set<uint64_t> cut_off;
  for (const auto& [process, counts] : addresses)
    if (2 * counts.first > counts.second) cut_off.insert(process);
  return cut_off;
}

UnreachedWatch::Alarm UnreachedWatch::sum(const std::map<uint64_t, Pair>& callers, TimePoint from,
                                          const std::set<uint64_t>& without) const {
  Alarm alarm;
  for (const auto& [process, pair] : callers) {
    if (without.contains(process)) continue;
    const uint64_t unconnected = pair.unconnected.grown(from), failed = unconnected + pair.cut.grown(from);
    alarm.checks += pair.checks.grown(from);
    alarm.unconnected += unconnected;
    alarm.failed += failed;
    if (failed > 0) alarm.callers.push_back(pair.caller);
  }
  return alarm;
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
    verdict.set_region(2 * alarm.unconnected > alarm.failed ? "new connections" : "long messages");
    verdict.set_since_ns(static_cast<uint64_t>((now - alarm.since).count()));
    verdict.set_confidence(is_sure ? proto::Verdict::CERTAIN : proto::Verdict::LIKELY);
    verdict.set_probability(is_sure ? 0.995 : 0.95);
    verdict.add_why(fmt::format("{} of {} checks of it failed in the last {:.0f} s, by {} servers",
                                alarm.failed, alarm.checks, to_seconds(settings_.over),
                                alarm.callers.size()));
    for (const std::string& caller : alarm.callers)
      verdict.add_servers_waiting(caller);
    found.push_back(std::move(verdict));
  }
  return found;
}

}  // namespace kintsugi::gray
