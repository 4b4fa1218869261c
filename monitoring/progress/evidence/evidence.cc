#include "monitoring/progress/evidence/evidence.h"

namespace kintsugi::progress {
namespace {

/// All transitions of all processes are read again so often.
constexpr Duration kSojournsEvery = 5s;

}  // namespace

OpenTasks Evidence::observe(const model::Snapshot& snapshot) {
  count_sojourns(snapshot);
  OpenTasks tasks(snapshot, sojourns_);
  movement_.observe(snapshot);
  ended_.observe(tasks, movement_);
  shares_.update(snapshot);
  unwell_.observe(tasks, shares_);
  return tasks;
}

void Evidence::count_sojourns(const model::Snapshot& snapshot) {
  const bool is_old = snapshot.taken - sojourns_made_ >= kSojournsEvery || snapshot.taken < sojourns_made_;
  if (!is_old && snapshot.processes.size() == sojourns_of_) return;
  sojourns_ = Sojourns();
  for (const auto& view : snapshot.processes)
    sojourns_.add(*view);
  sojourns_made_ = snapshot.taken;
  sojourns_of_ = snapshot.processes.size();
}

}  // namespace kintsugi::progress
