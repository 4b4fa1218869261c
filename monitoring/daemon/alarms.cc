#include "monitoring/daemon/alarms.h"

#include <algorithm>
#include <tuple>

#include "common/proto/verdicts.h"
#include "monitoring/progress/waits/verdicts.h"

namespace kintsugi::monitoring {

bool is_worse(const proto::Verdict& a, const proto::Verdict& b) {
  const auto rank = [](const proto::Verdict& v) {
    return std::tuple(!v.masked(), proto::is_metaserver_silent(v), v.confidence(), v.waiters(), v.since_ns());
  };
  return rank(a) > rank(b);
}

void Alarms::restore(proto::Verdict record) {
  last_id_ = std::max(last_id_, record.id());
  const uint64_t identity = progress::identity(record);
  if (record.cleared_wall_ns() == 0) {
    if (standing_.size() < kMostStanding) standing_[identity].verdict = std::move(record);
    return;
  }
  const auto found = standing_.find(identity);
  if (found != standing_.end() && found->second.verdict.id() == record.id()) standing_.erase(found);
  history_.push_front(std::move(record));
  if (history_.size() > kMostHistory) history_.pop_back();
}

std::vector<proto::Verdict> Alarms::round(std::vector<proto::Verdict> found, TimePoint now, WallTime wall,
                                          const std::set<uint64_t>& heard) {
  if (started_ == TimePoint{}) started_ = now;
  std::vector<proto::Verdict> records;
  for (auto& [identity, alarm] : standing_)
    ++alarm.clean_rounds;
  std::stable_sort(found.begin(), found.end(), is_worse);
  for (proto::Verdict& verdict : found) {
    const uint64_t identity = progress::identity(verdict);
    const auto known = standing_.find(identity);
    if (known == standing_.end() && standing_.size() >= kMostStanding) continue;
    Alarm& alarm = standing_[identity];
    const bool is_new = known == standing_.end();
    if (!is_new && alarm.clean_rounds == 0) {  // another detector has found it, too, and was as sure
      alarm.verdict.set_factor(std::max(alarm.verdict.factor(), verdict.factor()));
      if (alarm.verdict.servers_waiting().empty()) {
        alarm.verdict.mutable_servers_waiting()->Swap(verdict.mutable_servers_waiting());
        alarm.verdict.mutable_processes_waiting()->Swap(verdict.mutable_processes_waiting());
      }
      continue;
    }
    const bool surer = !is_new && verdict.confidence() > alarm.verdict.confidence();
    verdict.set_id(is_new ? ++last_id_ : alarm.verdict.id());
    verdict.set_raised_wall_ns(is_new ? wall.time_since_epoch().count() : alarm.verdict.raised_wall_ns());
    verdict.set_cleared_wall_ns(0);
    alarm = {.verdict = std::move(verdict)};
    totals_.raised += is_new;
    if (is_new || surer) records.push_back(alarm.verdict);
  }
  for (auto entry = standing_.begin(); entry != standing_.end();) {
    const proto::Verdict& verdict = entry->second.verdict;
    const bool is_heard = verdict.kind() == proto::Verdict::SILENT &&
                          (verdict.server_id() != 0 || proto::is_metaserver_silent(verdict)) &&
                          heard.contains(verdict.server_id());
    const bool settles = now - started_ < kSettle && !is_heard;
    if (settles || entry->second.clean_rounds < kCleanRounds) {
      ++entry;
      continue;
    }
    clear(std::move(entry->second), wall, records);
    entry = standing_.erase(entry);
  }
  return records;
}

void Alarms::clear(Alarm alarm, WallTime wall, std::vector<proto::Verdict>& records) {
  // A wall clock that went back must not make an alarm look as if it stood.
  alarm.verdict.set_cleared_wall_ns(
      std::max<int64_t>(wall.time_since_epoch().count(), alarm.verdict.raised_wall_ns() + 1));
  ++totals_.cleared;
  records.push_back(alarm.verdict);
  history_.push_front(std::move(alarm.verdict));
  if (history_.size() > kMostHistory) history_.pop_back();
}

std::vector<proto::Verdict> Alarms::standing() const {
  std::vector<proto::Verdict> all;
  for (const auto& [identity, alarm] : standing_)
    all.push_back(alarm.verdict);
  std::stable_sort(all.begin(), all.end(), is_worse);
  return all;
}

}  // namespace kintsugi::monitoring
