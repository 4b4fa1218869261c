#include "monitoring/progress/history.h"

namespace kintsugi::progress {
namespace {

constexpr Duration kSojournsEvery = 5s;
}  // namespace

History::History() : state_(std::make_unique<State>()) {}
History::~History() = default;
History::History(History&&) noexcept = default;
History& History::operator=(History&&) noexcept = default;

bool History::wants_everything(uint64_t process) const {
  return state_->wanted.contains(process);
}

void History::remember(const model::WorkerModel& earlier) {
  state_->earlier.merge(earlier);
}

const Sojourns& History::State::sojourns(const model::Snapshot& snapshot) {
  const bool is_old = snapshot.taken - sojourns_made_ >= kSojournsEvery || snapshot.taken < sojourns_made_;
  if (is_old || snapshot.processes.size() != sojourns_of_) {
    sojourns_ = Sojourns();
    sojourns_.add(earlier);
    for (const auto& view : snapshot.processes)
      sojourns_.add(*view);
    sojourns_made_ = snapshot.taken;
    sojourns_of_ = snapshot.processes.size();
  }
  return sojourns_;
}

void History::State::observe(const OpenTasks& tasks, const Settings& settings) {
  movement.observe(tasks.snapshot());
  ended.observe(tasks, movement, settings.remember_ended);
  std::erase_if(candidates,
                [&](const auto& entry) { return tasks.snapshot().taken - entry.second.seen > 30s; });
}

}  // namespace kintsugi::progress
