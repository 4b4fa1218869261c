#include "monitoring/progress/evidence/movement.h"

#include <algorithm>
#include <set>

namespace kintsugi::progress {
namespace {

/// The names of roles that serve requests begin so (common/rpc/method.cc).
constexpr std::string_view kServeRoles = "serve.";
/// Who begins to serve nothing for so long, and so many times longer than in its latest pauses, hears nothing. Idle
/// chunkservers are asked something by one another every five seconds on average, and by chance for longer not at all.
constexpr Duration kPause = 6s;
constexpr int kTimesLonger = 2;
/// As long as fewer pauses are known.
constexpr Duration kAnyPause = 20s;
constexpr size_t kFewPauses = 4, kPauses = 16;

}  // namespace

void Movement::observe(const model::Snapshot& snapshot) {
  std::set<uint64_t> known;
  for (const auto& view : snapshot.processes) {
    known.insert(view->process());
    count(*view);
    count_served(*view);
  }
  std::erase_if(served_, [&](const auto& entry) { return !known.contains(entry.first); });
  std::erase_if(counters_, [&](const auto& entry) { return !known.contains(entry.first.first); });
}

void Movement::count(const model::ProcessView& view) {
  const auto set = [&](const std::string& name, uint64_t value) {
    const std::pair key(view.process(), name);
    const auto found = counters_.find(key);
    if (found == counters_.end()) {
      if (counters_.size() < kMaxCounters) counters_[key] = {.value = value, .moved = view.arrived()};
    } else if (found->second.value != value) {
      found->second = {.value = value, .moved = view.arrived(), .changed = true};
    }
  };
  for (const proto::SightDevice& device : view.last().devices())
    set(device.name(), device.has_answers() ? device.answers() : device.completed());
}

void Movement::count_served(const model::ProcessView& view) {
  Served& process = served_.try_emplace(view.process(), Served{.seen = view.arrived()}).first->second;
  for (const proto::SightRole& told : view.last().roles()) {
    const std::string& name = view.role_name(told.role());
    if (!name.starts_with(kServeRoles)) continue;
    const auto [at, is_new] = process.roles.try_emplace(name, Served::Role{told.begun(), view.arrived()});
    if (is_new || at->second.told == view.arrived()) continue;
    if (told.begun() > at->second.begun) {
      process.grew_since = std::max(process.grew_since.value_or(at->second.told), at->second.told);
      if (process.grew && view.arrived() != *process.grew) {
        const Duration pause = view.arrived() - *process.grew;
        if (process.is_unusual(pause)) process.resumed = view.arrived();
        process.pauses.push_back(pause);
        if (process.pauses.size() > kPauses) process.pauses.pop_front();
      }
      process.grew = view.arrived();
    }
    at->second = {told.begun(), view.arrived()};
  }
}

bool Movement::Served::is_unusual(Duration pause) const {
  if (pauses.size() < kFewPauses) return pause > kAnyPause;
  return pause > std::max(kPause, kTimesLonger * *std::ranges::max_element(pauses));
}

std::optional<Duration> Movement::idle(uint64_t process, TimePoint now) const {
  const auto found = served_.find(process);
  if (found == served_.end()) return std::nullopt;
  return now - found->second.grew.value_or(found->second.seen);
}

bool Movement::moved_after(uint64_t process, const std::string& name, TimePoint since) const {
  const auto found = counters_.find({process, name});
  return found != counters_.end() && found->second.changed && found->second.moved > since;
}

bool Movement::served_after(uint64_t process, TimePoint since) const {
  const auto found = served_.find(process);
  return found != served_.end() && found->second.grew_since && *found->second.grew_since > since;
}

bool Movement::resumed_after(uint64_t process, TimePoint since) const {
  const auto found = served_.find(process);
  return found != served_.end() && found->second.resumed && *found->second.resumed > since;
}

}  // namespace kintsugi::progress
