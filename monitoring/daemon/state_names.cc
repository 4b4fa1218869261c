#include "monitoring/daemon/state_names.h"

#include <fmt/format.h>

#include "common/proto/verdicts.h"
#include "monitoring/model/worker_model.h"

namespace kintsugi::monitoring {
similarity::StateInfo StateNames::describe(uint64_t state) const {
  const auto known = states_.find(state);
  return known == states_.end() ? similarity::StateInfo{.name = fmt::format("state {:x}", state)}
                                : known->second;
}

void StateNames::learn(const model::ProcessView& view) {
  bool all_known = true;
  for (const auto& [key, edge] : view.edges())
    all_known = all_known && states_.contains(model::state_key(view, edge.from()));
  if (all_known) return;
  std::unordered_map<uint64_t, const proto::SightPath*> regions;  // key: role path
  for (const auto& [id, path] : view.paths())
    regions.emplace(path.role_path(), &path);
  for (const auto& [id, state] : view.states()) {
    const uint64_t key = model::state_key(view, id);
    const auto region = regions.find(state.role_path());
    if (key == 0 || region == regions.end() || states_.contains(key) || states_.size() >= kMostStates)
      continue;
    std::string name = region->second->site();
    if (state.wait() != proto::WAIT_NONE) name += fmt::format(" [{}]", proto::wait_name(state.wait()));
    states_.emplace(key, similarity::StateInfo{.name = std::move(name),
                                               .region = view.region(region->second->path()),
                                               .file = region->second->file(),
                                               .function = region->second->function(),
                                               .line = region->second->line(),
                                               .wait = state.wait(),
                                               .computes = state.wait() == proto::WAIT_NONE});
  }
}

}  // namespace kintsugi::monitoring
