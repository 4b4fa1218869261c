#include "monitoring/daemon/gray_detector.h"

#include <algorithm>
#include <iterator>
#include <map>

#include "common/runtime/network.h"
#include "monitoring/progress/evidence/shortage.h"

namespace kintsugi::monitoring {
namespace {

/// The names of tasks that serve a request begin so.
constexpr std::string_view kServes = "serve.";
constexpr Duration kOver = gray::PauseSettings().over;

gray::Party party(const model::ProcessView& view) {
  return {view.process(), view.last().server_id(), view.display(), view.last().kind()};
}

/// What applications do is their business.
bool is_application(const proto::SightReport& report) {
  return report.kind() == "client" || report.kind() == "mount";
}

bool explains_errors(proto::Verdict::Kind kind) {
  return kind == proto::Verdict::DEVICE || kind == proto::Verdict::SILENT ||
         kind == proto::Verdict::RUNNING || kind == proto::Verdict::STUCK || kind == proto::Verdict::FULL;
}

/// The machine of an address with or without a port, as it stands in the addresses of those that it has called.
std::string machine_of(const std::string& address) {
  const auto parsed = runtime::Endpoint::parse(address);
  const std::string host = parsed ? parsed->host : address;
  constexpr std::string_view kMapped = "::ffff:";
  return host.starts_with(kMapped) ? host.substr(kMapped.size()) : host;
}

bool names(const std::vector<proto::Verdict>& verdicts, uint64_t process) {
  // A machine is no process.
  return process != 0 &&
         std::ranges::any_of(verdicts, [&](const auto& one) { return one.process() == process; });
}

}  // namespace

void GrayDetector::look(const model::Snapshot& snapshot) {
  shares_.update(snapshot);
  const progress::Shortages shortages(shares_, snapshot.taken - kOver);
  std::vector<gray::Pausing> processes;
  std::vector<gray::Disk> disks;
  std::vector<gray::Checks> checks;
  std::map<std::string, gray::Reachable> peers;
  for (const auto& view : snapshot.processes) {
    const proto::SightReport& last = view->last();
    if (!last.address().empty())
      peers[last.address()] = {.since = view->first_arrived(),
                               .reports = !last.last() && snapshot.silent(*view) <= kSilence};
    if (last.last() || is_application(last)) continue;
    const gray::Party who = party(*view);
    processes.push_back(
        {.who = who,
         .machine = shares_.machine_of(who.process),
         .stood_still_ns = last.system().stood_still_ns(),
         .delayed = shares_.since(who.process, snapshot.taken - kOver).delayed,
         .machine_lacks_processor = shortages.explains(who.process) == progress::Shortage::kOfMachine,
         .at = view->arrived()});
    for (const proto::SightDevice& device : last.devices())
      if (!device.peer())
        disks.push_back({.of = who,
                         .name = device.name(),
                         .machine = last.system().machine(),
                         .host = last.host(),
                         .stalls = device.stalls(),
                         .lacks_processor = shares_.latest(who.process).starves(),
                         .at = view->arrived()});
    checks.push_back({.process = who.process,
                      .caller = who.name,
                      .latest = {last.checks().begin(), last.checks().end()},
                      .at = view->arrived()});
  }
  pauses_.look(processes, snapshot.taken);
  stalls_.look(disks, snapshot.taken);
  unreached_.look(checks, peers, snapshot.taken);
  look_at_links(snapshot);
  look_at_answers(snapshot);
  look_at_clocks(snapshot);
}

void GrayDetector::look_at_links(const model::Snapshot& snapshot) {
  std::map<std::string_view, const model::ProcessView*> servers;  // by address
  for (const auto& view : snapshot.processes)
    if (!view->last().address().empty() && !view->last().last()) servers[view->last().address()] = view.get();
  std::vector<gray::Link> links;
  const progress::Shortages shortages(shares_, snapshot.taken - gray::RecentGrowth::kWindow);
  const auto lacks_processor = [&](const model::ProcessView& view) {
    return shortages.explains(view.process()) != progress::Shortage::kNone;
  };
  for (const auto& view : snapshot.processes) {
    const proto::SightReport& last = view->last();
    const std::string own = machine_of(last.address().empty() ? last.host() : last.address());
    for (const proto::SightLink& link : last.links()) {
      const auto dialled = servers.find(link.end());
      const bool accepted = dialled == servers.end() && !runtime::Endpoint::parse(link.end());
      if (dialled == servers.end() && !accepted) continue;  // whoever is called there does not report
      const model::ProcessView& server = accepted ? *view : *dialled->second;
      links.push_back({.server = party(server),
                       .machine = accepted ? machine_of(link.end()) : own,
                       .source = std::to_string(view->process()) + " " + link.end(),
                       .segments = link.segments(),
                       .lost = link.lost(),
                       .at = view->arrived(),
                       .lacks_processor = lacks_processor(*view) || lacks_processor(server)});
    }
  }
  losses_.look(links, snapshot.taken);
}

void GrayDetector::look_at_answers(const model::Snapshot& snapshot) {
  std::vector<gray::Answers> answers;
  std::set<uint64_t> running;
  for (const auto& view : snapshot.processes) {
    const proto::SightReport& last = view->last();
    if (last.last() || is_application(last) || Duration(last.uptime_ns()) < kStarts) continue;
    running.insert(view->process());
    for (const proto::SightRole& role : last.roles())
      if (role.name().starts_with(kServes))
        answers.push_back({.of = party(*view),
                           .role = role.name().substr(kServes.size()),
                           .all = role.ended(),
                           .faulty = role.faulty(),
                           .at = view->arrived()});
  }
  errors_.look(answers, running, snapshot.taken);
}

void GrayDetector::look_at_clocks(const model::Snapshot& snapshot) {
  std::vector<gray::WallClock> clocks;
  for (const auto& view : snapshot.processes) {
    const proto::SightReport& last = view->last();
    if (last.last() || is_application(last)) continue;
    const Duration own_wall = Duration(snapshot.wall_ns) - (snapshot.taken - view->arrived());
    const std::string& machine = shares_.machine_of(view->process());
    clocks.push_back({.who = party(*view),
                      .machine = machine.empty() ? last.host() : machine,
                      .host = last.host(),
                      .jumps = last.clock().jumps(),
                      .jumped = Duration(last.clock().jumped_ns()),
                      .ahead = Duration(last.wall_ns()) - own_wall,
                      .at = view->arrived()});
  }
  clocks_.look(clocks, snapshot.taken);
}

void GrayDetector::report_came(const model::ProcessView& view, const proto::SightReport& report,
                               TimePoint arrived) {
  if (!is_application(report)) return;
  const auto tell = [&](const std::string& peer, bool given_up, Duration waited) {
    unreached_.hear({.process = view.process(),
                     .caller = view.display(),
                     .peer = peer,
                     .given_up = given_up,
                     .waited = waited},
                    arrived);
  };
  std::set<std::string_view> given_up;
  for (const proto::SightLive& wait : report.live()) {
    // An answer that says "unavailable" is none that was waited for; one that this side broke off says nothing.
    const auto outcome = static_cast<Code>(wait.outcome());
    const bool in_vain = outcome == Code::kDeadlineExceeded || outcome == Code::kUnavailable;
    if (wait.ended_ago_ns() > 0 && in_vain && runtime::Endpoint::parse(wait.target()) &&
        given_up.insert(wait.target()).second)
      tell(wait.target(), true, Duration(wait.age_ns()) + Duration(wait.ended_ago_ns()));
  }
  if (given_up.empty()) return;
  for (const proto::SightDevice& peer : report.devices())
    if (peer.peer() && peer.answers() > 0 && !given_up.contains(peer.name())) tell(peer.name(), false, {});
}

void GrayDetector::hear(const std::vector<proto::Verdict>& found, TimePoint) {
  explained_.clear();
  for (const proto::Verdict& verdict : found)
    if (verdict.process() != 0 && explains_errors(verdict.kind())) explained_.insert(verdict.process());
}

std::vector<proto::Verdict> GrayDetector::unreached(const model::Snapshot& snapshot,
                                                    const std::vector<proto::Verdict>& pausing) const {
  std::vector<proto::Verdict> found;
  for (proto::Verdict& verdict : unreached_.alarms(snapshot.taken)) {
    const model::ProcessView* at = snapshot.at(verdict.server());
    // Whoever does not report is absent, and whoever pauses answers late: both are said already.
    if (at == nullptr || at->last().last() || snapshot.silent(*at) > kSilence) continue;
    if (names(pausing, at->process())) continue;
    verdict.set_server(at->display());
    verdict.set_server_id(at->last().server_id());
    verdict.set_process(at->process());
    verdict.set_process_kind(at->last().kind());
    found.push_back(std::move(verdict));
  }
  return found;
}

std::vector<proto::Verdict> GrayDetector::examine(const model::Snapshot& snapshot) {
  look(snapshot);
  std::vector<proto::Verdict> found = pauses_.alarms(snapshot.taken);
  excused_ = pauses_.excused(snapshot.taken);
  std::ranges::move(losses_.excused(snapshot.taken), std::back_inserter(excused_));
  std::ranges::move(unreached(snapshot, found), std::back_inserter(found));
  // Requests of a process that stands still take long on a disk that is well.
  for (proto::Verdict& disk : stalls_.alarms(snapshot.taken))
    if (!names(found, disk.process())) found.push_back(std::move(disk));
  // Who hangs, has no disk that works or is not reached has errors and repeated packets for that reason.
  std::vector<proto::Verdict> others = errors_.alarms(snapshot.taken);
  std::ranges::move(losses_.alarms(snapshot.taken), std::back_inserter(others));
  std::erase_if(others, [&](const proto::Verdict& verdict) {
    return explained_.contains(verdict.process()) || names(found, verdict.process());
  });
  std::ranges::move(others, std::back_inserter(found));
  std::ranges::move(clocks_.alarms(snapshot.taken), std::back_inserter(found));
  return found;
}

}  // namespace kintsugi::monitoring
