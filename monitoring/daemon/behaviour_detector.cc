#include "monitoring/daemon/behaviour_detector.h"

#include <algorithm>
#include <set>

namespace kintsugi::monitoring {
namespace {

/// A process that lacked a processor in this time took longer than its inputs explain, for a reason outside of its
/// code.
constexpr Duration kLately = std::chrono::seconds(15);
constexpr double kLateShare = 0.1;  ///< share of the time in which it had something to do
constexpr Duration kForget = std::chrono::minutes(1);

behaviour::DetectorSettings settings() {
  behaviour::DetectorSettings settings;
  // A fit of so many executions takes a tenth of a second.
  settings.most_samples = 1024;
  return settings;
}

bool is_server(const proto::SightReport& report) {
  return report.kind() == "chunkserver" || report.kind() == "metaserver" || report.kind() == "repair-manager";
}

behaviour::Module module_of(const model::ProcessView& view, const proto::SightPath& path) {
  return {.process_kind = view.last().kind(),
          .role_path = path.role_path(),
          .region = view.region(path.path()),
          .file = path.file(),
          .function = path.function(),
          .line = path.line(),
          .inputs = {path.inputs().begin(), path.inputs().end()},
          .outputs = {path.outputs().begin(), path.outputs().end()}};
}

}  // namespace

BehaviourDetector::BehaviourDetector() : detector_(settings()) {}

std::vector<std::string> BehaviourDetector::wants_samples_of(uint64_t process) const {
  const auto found = asked_.find(process);
  return found == asked_.end() ? std::vector<std::string>() : found->second.sites;
}

void BehaviourDetector::report_came(const model::ProcessView& view, const proto::SightReport& report,
                                    TimePoint arrived) {
  if (!is_server(view.last())) return;
  if (!asked_.contains(view.process()) && asked_.size() >= kMostProcesses) return;
  Asked& asked = asked_[view.process()];
  asked.seen = arrived;
  asked.sites.clear();
  if (arrived >= asked.next) {
    asked.next = arrived + kAsk;
    std::set<std::string> sites;  // only the sites that record inputs
    for (const auto& [id, path] : view.paths())
      if (path.inputs_size() > 0 && sites.size() < kMostSites) sites.insert(path.site());
    asked.sites.assign(sites.begin(), sites.end());
  }
  if (report.samples().empty()) return;
  const progress::ProcessorShares::Share share = shares_.since(view.process(), arrived - kLately);
  if (share.known && share.of_busy() >= kLateShare) return;
  std::map<uint64_t, std::vector<const proto::SightSample*>> by_path;
  for (const proto::SightSample& sample : report.samples())
    by_path[sample.path()].push_back(&sample);
  const behaviour::Origin origin{
      .name = view.display(), .server_id = view.last().server_id(), .process = view.process()};
  for (const auto& [id, samples] : by_path) {
    const proto::SightPath* path = view.path(id);
    if (path != nullptr && path->inputs_size() > 0)
      detector_.add(origin, module_of(view, *path), samples, arrived);
  }
}

std::vector<proto::Verdict> BehaviourDetector::examine(const model::Snapshot& snapshot) {
  shares_.update(snapshot);
  std::erase_if(asked_, [&](const auto& entry) { return snapshot.taken - entry.second.seen > kForget; });
  if (snapshot.taken - fitted_ >= kFit) {
    fitted_ = snapshot.taken;
    if (const auto job = detector_.due(snapshot.taken))
      detector_.install(behaviour::fit(*job), snapshot.taken);
  }
  std::vector<proto::Verdict> found = detector_.alarms(snapshot.taken);
  for (proto::Verdict& verdict : found) {
    verdict.set_confidence(proto::Verdict::UNSURE);
    verdict.set_masked(true);
  }
  return found;
}

}  // namespace kintsugi::monitoring
