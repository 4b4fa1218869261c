#include "monitoring/daemon/window_detector.h"

#include <algorithm>

#include "common/proto/verdicts.h"

namespace kintsugi::monitoring {

void WindowDetector::hear(const std::vector<proto::Verdict>& found, TimePoint now) {
  for (const proto::Verdict& verdict : found) {
    named_at_[verdict.process()] = now;
    named_at_[verdict.peer_process()] = now;
    for (const uint64_t waiting : verdict.processes_waiting())
      named_at_[waiting] = now;
  }
  std::erase_if(named_at_, [&](const auto& named) { return now - named.second > kNamedLately; });
}

std::vector<proto::Verdict> WindowDetector::examine(const model::Snapshot& snapshot) {
  for (const JudgedWindow& window : windows_.add(snapshot))
    look(window, snapshot);
  std::erase_if(servers_,
                [&](const auto& server) { return snapshot.taken - server.second.last.ended > kForgotten; });
  std::vector<proto::Verdict> found;
  for (auto& [process, server] : servers_) {
    if (!server.stands || named_at_.contains(process)) continue;
    found.push_back(server.verdict);
    found.back().set_since_ns(static_cast<uint64_t>((snapshot.taken - server.began).count()));
  }
  return found;
}

bool WindowDetector::is_alone(uint64_t process) const {
  const Server& one = servers_.at(process);
  const double least = std::min(one.last.score, one.before.score) / 2;
  size_t peers = 0, alike = 0;
  for (const auto& [other, server] : servers_) {
    const bool shares_machine = !one.machine.empty() && server.machine == one.machine;
    if (other == process || (server.kind != one.kind && !shares_machine)) continue;
    // Their windows end at other times than this one's.
    const auto is_odd = [&](const Server::Scored& window) {
      return window.score >= least && one.last.ended - window.ended <= kInARow;
    };
    if (one.last.ended - server.last.ended > kInARow) continue;
    ++peers;
    alike += is_odd(server.last) || is_odd(server.before) ? 1 : 0;
  }
  return peers < kLeastPeers || kShare * alike < peers;
}

void WindowDetector::look(const JudgedWindow& window, const model::Snapshot& snapshot) {
  Server& server = servers_[window.process];
  server.kind = window.kind;
  if (const int view = snapshot.index_of(window.process); view >= 0)
    server.machine = snapshot.processes[view]->last().system().machine();
  const similarity::OddWindow& ours = window.ours;
  const bool takes_time = ours.because == similarity::OddBecause::kTime && !ours.top.empty();
  server.before = std::exchange(server.last, {takes_time ? ours.time_score : 0, snapshot.taken});
  const bool is_odd = server.last.score > similarity::OddWindows::kOdd;
  const bool was_odd = server.before.score > similarity::OddWindows::kOdd &&
                       server.last.ended - server.before.ended <= kInARow;
  if (!is_odd) {
    server.stands = false;
    return;
  }
  if (!was_odd) {
    server.began = window.began;
    server.odd_windows = 1;
    server.total_score = server.last.score;
    server.stands = false;
    return;
  }
  ++server.odd_windows;
  server.total_score += server.last.score;
  // A server whose windows stay odd has one alarm, with the region of its first one, whichever transition took most in
  // the last window.
  if (server.stands || server.odd_windows < kLeastRow || server.total_score < kEnough ||
      !is_alone(window.process))
    return;
  server.stands = true;
  const similarity::StateInfo state = windows_.names().describe(ours.top.front().transition.from);
  proto::Verdict& verdict = server.verdict;
  verdict.Clear();
  verdict.set_kind(proto::Verdict::SLOW);
  verdict.set_server(window.server);
  verdict.set_server_id(window.server_id);
  verdict.set_process(window.process);
  verdict.set_process_kind(window.kind);
  verdict.set_region(state.region.empty() ? state.name : state.region);
  verdict.set_file(state.file);
  verdict.set_line(state.line);
  verdict.set_function(state.function);
  verdict.set_confidence(proto::Verdict::LIKELY);
  verdict.add_why(
      fmt::format("in windows in a row it took longer than is usual of a {}, by {:.1f} s in the last "
                  "one: {:.0f} times "
                  "as much as windows differ as a rule",
                  window.kind, ours.excess_s, ours.score));
  for (const similarity::OddTransition& one : ours.top) {
    const similarity::StateInfo stay = windows_.names().describe(one.transition.from);
    verdict.add_why(fmt::format("{:.1f} s of it {} {}", one.excess_s,
                                stay.wait == proto::WAIT_NONE ? "at work in" : "waiting in", stay.name));
  }
}

}  // namespace kintsugi::monitoring
