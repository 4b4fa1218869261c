#include "monitoring/daemon/similarity_detectors.h"

#include <fmt/format.h>

#include "common/proto/verdicts.h"

namespace kintsugi::monitoring {
namespace {

constexpr size_t kMostStates = 65'536;  ///< whose names are remembered
/// Who lacked a processor in this time measures times that say nothing of its disks and links.
constexpr Duration kLately = std::chrono::seconds(10);

double transitions(const model::WorkerModel& window) {
  double count = 0;
  for (const auto& [key, edge] : window.edges())
    count += static_cast<double>(edge.count);
  return count;
}

similarity::Model model_of(const model::WorkerModel& window) {
  std::vector<similarity::Edge> edges;
  for (const auto& [key, edge] : window.edges()) {
    if (edge.count == 0) continue;
    const auto count = static_cast<double>(edge.count);
    const double deviation = edge.deviation();
    edges.push_back({.transition = {key.first, key.second},
                     .count = count,
                     .mean = edge.mean(),
                     .squares = deviation * deviation * count});
  }
  return similarity::Model(std::move(edges));
}

}  // namespace

// ---- disks and links -------------------------------------------------------------------------------------------------

std::vector<proto::Verdict> FailSlowDetector::examine(const model::Snapshot& snapshot) {
  shares_.update(snapshot);
  std::map<std::string, const model::ProcessView*> at;  // by address
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

// ---- memory ----------------------------------------------------------------------------------------------------------

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

// ---- workers ---------------------------------------------------------------------------------------------------------

WorkerDetector::WorkerDetector()
    : watch_([this](uint64_t state) {
        const auto known = states_.find(state);
        return known == states_.end() ? similarity::StateInfo{.name = fmt::format("state {:x}", state)}
                                      : known->second;
      }) {}

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
  std::vector<similarity::Worker> workers;
  std::map<uint64_t, Totals> totals;
  for (const auto& view : snapshot.processes) {
    if (view->edges().empty() || view->last().last()) continue;
    if (totals.size() >= kMostProcesses) break;
    learn_names(*view);
    Totals& now = totals[view->process()];
    now.begun = view->tasks_begun();
    const auto before = totals_.find(view->process());
    for (const auto& [number, role] : view->roles()) {
      if (role.empty() || now.by_role.size() >= kMostRoles || now.by_role.contains(role)) continue;
      const model::WorkerModel& total =
          now.by_role.emplace(role, model::WorkerModel::of(*view, role)).first->second;
      // Its first window is not known to be as long as the others.
      if (before == totals_.end() || !before->second.by_role.contains(role)) continue;
      const model::WorkerModel& began = before->second.by_role.at(role);
      const model::WorkerModel window = total.since(began);
      size_t& waited = now.waited[role];
      const auto earlier = before->second.waited.find(role);
      waited = earlier == before->second.waited.end() ? 1 : earlier->second + 1;
      if (transitions(window) < kEnough && waited < kLongest) {
        // Who has little to do is judged by more of it, later.
        now.by_role.insert_or_assign(role, began);
        continue;
      }
      waited = 0;
      const uint64_t begun = now.begun >= before->second.begun ? now.begun - before->second.begun : now.begun;
      workers.push_back({.server = view->display(),
                         .server_id = view->last().server_id(),
                         .process = view->process(),
                         .process_kind = view->last().kind(),
                         .role = role,
                         .model = model_of(window),
                         .load = {static_cast<double>(begun) / seconds},
                         .lacked_processor = lacked_processor(view->process())});
    }
  }
  totals_ = std::move(totals);
  watch_.add_window(workers, snapshot.taken);
}

bool WorkerDetector::lacked_processor(uint64_t process) const {
  return shares_.since(process, window_began_).suffers();
}

void WorkerDetector::learn_names(const model::ProcessView& view) {
  bool all_known = true;
  for (const auto& [key, edge] : view.edges())
    all_known = all_known && states_.contains(model::state_key(view, edge.from()));
  if (all_known) return;
  const proto::SightReport everything = view.to_report();
  std::unordered_map<uint64_t, const proto::SightPath*> regions;  // by role path
  for (const proto::SightPath& path : everything.new_paths())
    regions.emplace(path.role_path(), &path);
  for (const proto::SightState& state : everything.new_states()) {
    const uint64_t key = model::state_key(view, state.state());
    const auto region = regions.find(state.role_path());
    if (key == 0 || region == regions.end() || states_.contains(key) || states_.size() >= kMostStates)
      continue;
    std::string name = region->second->site();
    if (state.wait() != proto::WAIT_NONE) name += fmt::format(" [{}]", proto::wait_name(state.wait()));
    states_.emplace(key, similarity::StateInfo{.name = std::move(name),
                                               .file = region->second->file(),
                                               .function = region->second->function(),
                                               .line = region->second->line(),
                                               .computes = state.wait() == proto::WAIT_NONE});
  }
}

}  // namespace kintsugi::monitoring
