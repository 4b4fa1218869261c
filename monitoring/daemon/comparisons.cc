#include "monitoring/daemon/comparisons.h"

#include <algorithm>

namespace kintsugi::monitoring {
namespace {

constexpr size_t kMostStates = 65'536;

similarity::Model in_logarithms(const model::WorkerModel& window) {
  std::vector<similarity::Edge> edges;
  for (const auto& [key, edge] : window.edges()) {
    const auto count = static_cast<double>(edge.count);
    if (edge.count == 0 || count < 0) continue;
    const double mean = edge.mean(), deviation = edge.deviation();
    edges.push_back({.transition = {key.first, key.second},
                     .count = count,
                     .mean = mean,
                     .squares = deviation * deviation * count});
  }
  return similarity::Model(std::move(edges));
}

/// Where the sites' regions lie, from the entry of the role down: "chunkserver.partial_sum > disk.read".
std::string region_of(const model::ProcessView& view, uint64_t path) {
  std::string region;
  for (int depth = 0; depth < 16; ++depth) {
    const proto::SightPath* known = view.path(path);
    if (known == nullptr) break;
    region = region.empty() ? known->site() : known->site() + " > " + region;
    path = known->parent();
  }
  return region;
}

}  // namespace

std::vector<proto::Verdict> FailSlowDetector::examine(const model::Snapshot& snapshot) {
  std::map<uint64_t, TimePoint> taken;
  for (const auto& view : snapshot.processes) {
    const auto before = taken_.find(view->process());
    taken[view->process()] = view->arrived();
    if (before != taken_.end() && before->second == view->arrived()) continue;
    std::vector<const proto::SightDevice*> devices;
    for (const proto::SightDevice& device : view->last().devices())
      devices.push_back(&device);
    fail_slow_.add({view->display(), view->last().server_id(), view->process(), view->last().kind()}, devices,
                   view->arrived());
  }
  taken_ = std::move(taken);
  fail_slow_.step(snapshot.taken);
  return fail_slow_.alarms(snapshot.taken);
}

SimilarityDetector::SimilarityDetector()
    : watch_([this](uint64_t state) {
        const auto found = states_.find(state);
        return found != states_.end() ? found->second : similarity::StateInfo{};
      }) {}

void SimilarityDetector::learn_states(const model::ProcessView& view) {
  std::map<uint64_t, const proto::SightPath*> by_role_path;
  for (const auto& [id, path] : view.paths())
    by_role_path.emplace(path.role_path(), &path);
  for (const auto& [id, state] : view.states()) {
    const uint64_t key = model::state_key(view, id);
    if (key == 0 || states_.contains(key) || states_.size() >= kMostStates) continue;
    const auto path = by_role_path.find(state.role_path());
    if (path == by_role_path.end()) continue;
    similarity::StateInfo info;
    info.name = region_of(view, path->second->path());
    if (!state.last_child().empty()) info.name += " after " + state.last_child();
    info.file = path->second->file();
    info.line = path->second->line();
    info.function = path->second->function();
    info.computes = state.wait() == proto::WAIT_NONE;
    states_.emplace(key, std::move(info));
  }
}

std::vector<similarity::Worker> SimilarityDetector::windows(const model::Snapshot& snapshot) {
  const double seconds = std::chrono::duration<double>(snapshot.taken - window_began_).count();
  std::vector<similarity::Worker> workers;
  std::map<Worker, model::WorkerModel> totals;
  for (const auto& view : snapshot.processes) {
    learn_states(*view);
    for (const proto::SightRole& role : view->last().roles()) {
      const std::string& name = view->role_name(role.role());
      const Worker worker{view->process(), name};
      if (name.empty() || totals.contains(worker)) continue;
      model::WorkerModel now = model::WorkerModel::of(*view, name);
      const auto before = totals_.find(worker);
      if (before != totals_.end()) {
        similarity::Model window = in_logarithms(now.since(before->second));
        const double rate = window.count() / std::max(1.0, seconds);
        workers.push_back({view->display(),
                           view->last().server_id(),
                           view->process(),
                           view->last().kind(),
                           name,
                           std::move(window),
                           {rate}});
      }
      totals.emplace(worker, std::move(now));
    }
  }
  totals_ = std::move(totals);
  return workers;
}

std::vector<proto::Verdict> SimilarityDetector::examine(const model::Snapshot& snapshot) {
  if (window_began_ == TimePoint::min() || snapshot.taken - window_began_ >= kWindow) {
    const std::vector<similarity::Worker> workers = windows(snapshot);
    window_began_ = snapshot.taken;
    watch_.add_window(workers, snapshot.taken);
  }
  return watch_.alarms(snapshot.taken);
}

std::vector<std::string> BehaviourDetector::wants_samples_of(uint64_t) const {
  // Regions that compute or use a disk: what they take follows from what they are given.
  return {"chunkserver.read_blocks", "chunkserver.partial_sum_own", "metaserver.commit_batch"};
}

void BehaviourDetector::report_came(const model::ProcessView& view, const proto::SightReport& report,
                                    TimePoint arrived) {
  std::map<uint64_t, std::vector<const proto::SightSample*>> by_path;
  for (const proto::SightSample& sample : report.samples())
    by_path[sample.path()].push_back(&sample);
  for (const auto& [id, samples] : by_path) {
    const proto::SightPath* path = view.path(id);
    if (path == nullptr) continue;
    behaviour::Module module{.process_kind = report.kind(),
                             .role_path = path->role_path(),
                             .region = region_of(view, id),
                             .file = path->file(),
                             .function = path->function(),
                             .line = path->line(),
                             .inputs = {},
                             .outputs = {}};
    module.inputs.assign(path->inputs().begin(), path->inputs().end());
    module.outputs.assign(path->outputs().begin(), path->outputs().end());
    detector_.add({view.display(), report.server_id(), report.process()}, module, samples, arrived);
  }
}

std::vector<proto::Verdict> BehaviourDetector::examine(const model::Snapshot& snapshot) {
  if (fitted_ == TimePoint::min() || snapshot.taken - fitted_ >= kRefit) {
    fitted_ = snapshot.taken;
    // One module a minute: a fit takes the loop's time.
    if (auto job = detector_.due(snapshot.taken))
      detector_.install(behaviour::Detector::fit(*job), snapshot.taken);
  }
  return detector_.alarms(snapshot.taken);
}

}  // namespace kintsugi::monitoring
