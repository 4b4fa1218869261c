#include "monitoring/progress/history.h"

#include <algorithm>

namespace kintsugi::progress {
namespace {

constexpr Duration kSojournsEvery = 5s;
constexpr Duration kForgetCounter = 10min;
/// The names of roles that serve requests begin so (common/rpc/method.cc).
constexpr std::string_view kServeRoles = "serve.";

uint64_t sum_of(const proto::SightDevice& device) {
  return device.completed() + device.bytes_in();
}

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
  const TimePoint now = tasks.snapshot().taken;
  for (const auto& [index, record] : tasks.ended()) {
    const model::ProcessView& view = *tasks.snapshot().processes[index];
    const std::tuple key(view.process(), record->span(), record->target_span());
    if (ended.size() >= kMaxEnded && !ended.contains(key)) continue;
    const auto ago = static_cast<int64_t>(std::min<uint64_t>(record->ended_ago_ns(), int64_t{1} << 60));
    const proto::SightPath* path = view.path(record->path());
    ended[key] = {.process = view.process(),
                  .display = view.display(),
                  .region = tasks.region(index, *record),
                  .role = path == nullptr ? "" : path->site(),
                  .target = record->target(),
                  .trace = record->trace(),
                  .target_span = record->target_span(),
                  .age_ns = record->age_ns(),
                  .wait = record->wait(),
                  .file = record->file(),
                  .function = record->function(),
                  .line = record->line(),
                  .outcome = record->outcome(),
                  .ended = view.arrived() - Duration(ago)};
  }
  std::erase_if(ended, [&](const auto& entry) { return now - entry.second.ended > settings.remember_ended; });

  for (const auto& view : tasks.snapshot().processes) {
    const auto count = [&](const std::string& name, uint64_t value) {
      const std::pair key(view->process(), name);
      const auto found = counters.find(key);
      if (found == counters.end()) {
        if (counters.size() < kMaxCounters) counters[key] = {.value = value, .moved = view->arrived()};
      } else if (found->second.value != value) {
        found->second = {.value = value, .moved = view->arrived(), .changed = true};
      }
    };
    for (const proto::SightDevice& device : view->last().devices())
      count(device.name(), sum_of(device));
    // Other reports hold some of the roles only.
    if (!view->last().all_live()) continue;
    uint64_t served = 0;
    for (const proto::SightRole& role : view->last().roles())
      if (view->role_name(role.role()).starts_with(kServeRoles)) served += role.ended();
    count(kServed, served);
  }
  observe_served(tasks.snapshot());
  std::erase_if(counters, [&](const auto& entry) { return now - entry.second.moved > kForgetCounter; });
  std::erase_if(candidates, [&](const auto& entry) { return now - entry.second.seen > 30s; });
}

void History::State::observe_served(const model::Snapshot& snapshot) {
  std::set<uint64_t> known;
  for (const auto& view : snapshot.processes) {
    known.insert(view->process());
    Served& process = served[view->process()];
    for (const proto::SightRole& told : view->last().roles()) {
      const std::string& name = view->role_name(told.role());
      if (!name.starts_with(kServeRoles)) continue;
      const auto [at, is_new] = process.roles.try_emplace(name, Served::Role{told.begun(), view->arrived()});
      if (is_new || at->second.told == view->arrived()) continue;
      if (told.begun() > at->second.begun) process.grew_since = std::max(process.grew_since, at->second.told);
      at->second = {told.begun(), view->arrived()};
    }
  }
  std::erase_if(served, [&](const auto& entry) { return !known.contains(entry.first); });
}

bool History::State::served_after(uint64_t process, TimePoint since) const {
  const auto found = served.find(process);
  return found != served.end() && found->second.grew_since > since;
}

std::optional<Duration> History::State::unmoved(uint64_t process, const std::string& name,
                                                TimePoint now) const {
  const auto found = counters.find({process, name});
  if (found == counters.end()) return std::nullopt;
  return now - found->second.moved;
}

bool History::State::moved_within(uint64_t process, const std::string& name, TimePoint now,
                                  Duration within) const {
  const auto found = counters.find({process, name});
  return found != counters.end() && found->second.changed && now - found->second.moved <= within;
}

}  // namespace kintsugi::progress
