#include "monitoring/daemon/gray_detector.h"

#include <algorithm>
#include <iterator>

namespace kintsugi::monitoring {
namespace {

constexpr Duration kOver = gray::PauseSettings().over;

bool names(const std::vector<proto::Verdict>& verdicts, uint64_t process) {
  return std::ranges::any_of(verdicts, [&](const auto& one) { return one.process() == process; });
}

}  // namespace

void GrayDetector::look(const model::Snapshot& snapshot) {
  shares_.update(snapshot);
  std::vector<gray::Pausing> processes;
  std::vector<gray::Disk> disks;
  std::vector<gray::Checks> checks;
  std::vector<gray::Answers> answers;
  std::vector<gray::Clocks> clocks;
  for (const auto& view : snapshot.processes) {
    const proto::SightReport& last = view->last();
    // What applications do is their business.
    if (last.last() || last.kind() == "client" || last.kind() == "mount") continue;
    const gray::Party who{view->process(), last.server_id(), view->display(), last.kind()};
    processes.push_back({.who = who,
                         .machine = shares_.machine_of(who.process),
                         .stood_still_ns = last.system().stood_still_ns(),
                         .delayed = shares_.since(who.process, snapshot.taken - kOver).delayed,
                         .at = view->arrived()});
    answers.push_back(
        {.who = who, .all = last.answers(), .failed = last.failed_answers(), .at = view->arrived()});
    clocks.push_back({.who = who,
                      .machine = shares_.machine_of(who.process),
                      .wall_ns = last.wall_ns(),
                      .uptime_ns = static_cast<int64_t>(last.uptime_ns())});
    for (const proto::SightDevice& device : last.devices())
      if (!device.peer())
        disks.push_back({.of = who, .name = device.name(), .stalls = device.stalls(), .at = view->arrived()});
    if (last.checks_size() > 0)
      checks.push_back({.process = who.process,
                        .caller = who.name,
                        .latest = {last.checks().begin(), last.checks().end()}});
  }
  pauses_.look(processes, snapshot.taken);
  stalls_.look(disks, snapshot.taken);
  unreached_.look(checks, snapshot.taken);
  errors_.look(answers, snapshot.taken);
  clocks_.look(clocks, snapshot.taken);
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
  std::ranges::move(unreached(snapshot, found), std::back_inserter(found));
  // Requests of a process that stands still take long on a disk that is well.
  for (proto::Verdict& disk : stalls_.alarms(snapshot.taken))
    if (!names(found, disk.process())) found.push_back(std::move(disk));
  std::ranges::move(errors_.alarms(snapshot.taken), std::back_inserter(found));
  std::ranges::move(clocks_.alarms(snapshot.taken), std::back_inserter(found));
  return found;
}

}  // namespace kintsugi::monitoring
