#include "monitoring/daemon/similarity_detectors.h"

#include <utility>

#include "monitoring/daemon/window_times.h"
#include "monitoring/progress/evidence/shortage.h"

namespace kintsugi::monitoring {
namespace {

/// A process that lacked a processor in this time measures times that say nothing about its disks and links.
constexpr Duration kLately = std::chrono::seconds(10);

double transitions(const model::WorkerModel& window) {
  double count = 0;
  for (const auto& [key, edge] : window.edges())
    count += static_cast<double>(edge.count);
  return count;
}

}  // namespace

// ---- disks and links

std::vector<proto::Verdict> FailSlowDetector::examine(const model::Snapshot& snapshot) {
  shares_.update(snapshot);
  std::map<std::string, const model::ProcessView*> at;  // key: address
  for (const auto& view : snapshot.processes)
    if (!view->last().address().empty()) at[view->last().address()] = view.get();
  const auto suffers = [&](const model::ProcessView& view) {
    return shares_.since(view.process(), snapshot.taken - kLately).suffers();
  };
  for (const auto& view : snapshot.processes) {
    const bool asks_late = suffers(*view);
    std::vector<const proto::SightDevice*> devices, late;
    for (const proto::SightDevice& device : view->last().devices()) {
      const auto peer = device.peer() ? at.find(device.name()) : at.end();
      const bool is_late = asks_late || (peer != at.end() && suffers(*peer->second));
      (is_late ? late : devices).push_back(&device);
    }
    const similarity::DeviceOwner owner{.name = view->display(),
                                        .server_id = view->last().server_id(),
                                        .process = view->process(),
                                        .process_kind = view->last().kind()};
    if (!devices.empty()) fail_slow_.add(owner, devices, view->arrived());
    if (!late.empty()) fail_slow_.skip(owner, late, view->arrived());
  }
  fail_slow_.step(snapshot.taken);
  std::vector<proto::Verdict> found = fail_slow_.alarms(snapshot.taken);
  for (proto::Verdict& verdict : found) {
    // Links are known by the address of who is called; people know its name.
    const auto peer = at.find(verdict.peer());
    if (peer == at.end()) continue;
    if (!verdict.server().empty()) {
      verdict.set_peer(peer->second->display());
      verdict.set_peer_process(peer->second->process());
      if (verdict.kind() != proto::Verdict::SLOW) continue;
      // Which of them is slowest changes while the alarm stands.
      verdict.set_region("its links");
      verdict.add_why("the slowest one is that to " + verdict.peer());
      verdict.clear_peer();
      verdict.clear_peer_process();
      continue;
    }
    verdict.set_server(peer->second->display());
    verdict.set_server_id(peer->second->last().server_id());
    verdict.set_process(peer->second->process());
    verdict.set_process_kind(peer->second->last().kind());
    verdict.set_region("answers to others");
    verdict.clear_peer();
  }
  return found;
}

// ---- memory

std::vector<proto::Verdict> MemoryDetector::examine(const model::Snapshot& snapshot) {
  std::vector<similarity::MemoryUse> uses;
  for (const auto& view : snapshot.processes) {
    const proto::SightReport& last = view->last();
    // What applications take is their business.
    if (last.last() || last.kind() == "client" || last.kind() == "mount") continue;
    uses.push_back({.name = view->display(),
                    .server_id = last.server_id(),
                    .process = view->process(),
                    .kind = last.kind(),
                    .bytes = last.system().memory_bytes()});
  }
  watch_.look(uses, snapshot.taken);
  return watch_.alarms(snapshot.taken);
}

// ---- messages

std::vector<proto::Verdict> ComplaintDetector::examine(const model::Snapshot& snapshot) {
  std::vector<similarity::Complaints> totals;
  for (const auto& view : snapshot.processes)
    for (const proto::SightDevice& device : view->last().devices())
      if (device.peer())
        totals.push_back({.process = view->process(),
                          .of_address = device.name(),
                          .count = device.complaints(),
                          .method = device.complained_of()});
  watch_.look(totals, snapshot.taken);
  std::vector<proto::Verdict> found = watch_.alarms(snapshot.taken);
  for (proto::Verdict& verdict : found) {
    const model::ProcessView* of = snapshot.at(verdict.server());
    if (of == nullptr) continue;
    verdict.set_server(of->display());
    verdict.set_server_id(of->last().server_id());
    verdict.set_process(of->process());
    verdict.set_process_kind(of->last().kind());
  }
  return found;
}

// ---- workers

WorkerDetector::WorkerDetector() : watch_([this](uint64_t state) { return names_.describe(state); }) {}

std::vector<proto::Verdict> WorkerDetector::examine(const model::Snapshot& snapshot) {
  shares_.update(snapshot);
  if (window_began_ == TimePoint{}) window_began_ = snapshot.taken;
  if (snapshot.taken - window_began_ >= kWindow) {
    add_window(snapshot);
    window_began_ = snapshot.taken;
  }
  return watch_.alarms(snapshot.taken);
}

void WorkerDetector::add_window(const model::Snapshot& snapshot) {
  const double seconds = to_seconds(snapshot.taken - window_began_);
  const progress::Shortages shortages(shares_, window_began_);
  std::vector<similarity::Worker> workers;
  std::map<uint64_t, Totals> totals;
  for (const auto& view : snapshot.processes) {
    if (view->edges().empty() || view->last().last()) continue;
    if (totals.size() >= kMostProcesses) break;
    names_.learn(*view);
    Totals& now = totals[view->process()];
    now.begun = view->tasks_begun();
    const bool lacked = shortages.explains(view->process()) != progress::Shortage::kNone;
    const auto before = totals_.find(view->process());
    for (const auto& [number, role] : view->roles()) {
      if (role.empty() || now.by_role.size() >= kMostRoles || now.by_role.contains(role)) continue;
      const model::WorkerModel& total =
          now.by_role.emplace(role, model::WorkerModel::of(*view, role)).first->second;
      // Its first window is not known to be as long as the others.
      if (before == totals_.end() || !before->second.by_role.contains(role)) continue;
      const model::WorkerModel& began = before->second.by_role.at(role);
      const model::WorkerModel window = total.since(began);
      Joined& joined = now.joined[role];
      const auto earlier = before->second.joined.find(role);
      if (earlier != before->second.joined.end()) joined = earlier->second;
      ++joined.windows;
      joined.lacked_processor |= lacked;
      if (transitions(window) < kEnough && joined.windows < kLongest) {
        // A worker with little to do is judged later, when it has done more.
        now.by_role.insert_or_assign(role, began);
        continue;
      }
      const bool lacked_once = std::exchange(joined, {}).lacked_processor;
      const uint64_t begun = now.begun >= before->second.begun ? now.begun - before->second.begun : now.begun;
      workers.push_back({.server = view->display(),
                         .server_id = view->last().server_id(),
                         .process = view->process(),
                         .process_kind = view->last().kind(),
                         .role = role,
                         .model = log_times_of(window),
                         .load = {static_cast<double>(begun) / seconds},
                         .lacked_processor = lacked_once});
    }
  }
  totals_ = std::move(totals);
  watch_.add_window(workers, snapshot.taken);
}

}  // namespace kintsugi::monitoring
