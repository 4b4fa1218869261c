#include "monitoring/sight/recorder.h"

#include <atomic>
#include <mutex>
#include <thread>
#include <unordered_map>

#include "common/base/hash.h"
#include "monitoring/sight/thread_log.h"

namespace kintsugi::sight {

namespace {

std::atomic<uint64_t> next_recorder_number{1};

struct ThreadLog {
  explicit ThreadLog(const RecorderLimits& limits) : ring(limits.ring_events), paths(limits.max_paths) {}
  EventRing ring;
  PathTable paths;
};

/// The log that this thread used last: nearly always the right one, since a daemon's thread has one recorder.
thread_local uint64_t cached_recorder_number = 0;
thread_local ThreadLog* cached_log = nullptr;

}  // namespace

struct Recorder::State {
  uint64_t number = next_recorder_number.fetch_add(1);  ///< never reused, unlike an address
  uint64_t seed = 0;
  std::atomic<uint64_t> ids{0};
  RecorderLimits limits;
  mutable std::mutex mutex;  ///< guards `logs`, not what they hold
  std::unordered_map<std::thread::id, std::unique_ptr<ThreadLog>> logs;

  ThreadLog& log_of_this_thread() {
    // By number: a recorder at the address of a dead one must not get its log.
    if (cached_recorder_number == number) return *cached_log;
    std::lock_guard lock(mutex);
    auto& log = logs[std::this_thread::get_id()];
    if (!log) log = std::make_unique<ThreadLog>(limits);
    cached_recorder_number = number;
    cached_log = log.get();
    return *log;
  }
};

Recorder::Recorder(const runtime::Clock& clock, uint64_t seed, RecorderLimits limits)
    : clock_(clock), state_(std::make_unique<State>()) {
  state_->seed = mix_bits(seed);
  state_->limits = limits;
}

Recorder::~Recorder() = default;

Context Recorder::root_context(TimePoint deadline) {
  Context context;
  context.deadline = deadline;
  context.trace.trace_id = new_id();
  context.recorder = this;
  return context;
}

uint64_t Recorder::new_id() {
  // Consecutive counters become well spread ids that never repeat.
  const uint64_t id = mix_bits(state_->seed + state_->ids.fetch_add(1, std::memory_order_relaxed));
  return id == 0 ? 1 : id;
}

void Recorder::record(const Event& event, uint64_t parent_path) {
  ThreadLog& log = state_->log_of_this_thread();
  log.ring.push(event);
  log.paths.add(event.path, parent_path, *event.site, event.duration, event.code != Code::kOk);
}

std::vector<Event> Recorder::recent_events(size_t at_most) const {
  std::vector<Event> events;
  {
    std::lock_guard lock(state_->mutex);
    for (const auto& [thread, log] : state_->logs)
      log->ring.collect(at_most, events);
  }
  std::sort(events.begin(), events.end(),
            [](const Event& a, const Event& b) { return a.entered + a.duration > b.entered + b.duration; });
  if (events.size() > at_most) events.resize(at_most);
  return events;
}

std::vector<PathTotals> Recorder::totals() const {
  std::vector<PathTotals> totals;
  {
    std::lock_guard lock(state_->mutex);
    for (const auto& [thread, log] : state_->logs)
      log->paths.collect(totals);
  }
  std::sort(totals.begin(), totals.end(), [](const PathTotals& a, const PathTotals& b) {
    return std::tie(a.site->name, a.path) < std::tie(b.site->name, b.path);
  });
  return totals;
}

std::string Recorder::path_name(uint64_t path) const {
  const std::vector<PathTotals> all = totals();
  std::string name;
  // A calling context is a chain of distinct table entries, so it cannot be longer than the table.
  for (size_t hops = 0; path != 0 && hops <= all.size(); ++hops) {
    const auto found =
        std::find_if(all.begin(), all.end(), [&](const PathTotals& t) { return t.path == path; });
    const std::string step = found == all.end() ? std::string("(remote)") : std::string(found->site->name);
    name = name.empty() ? step : step + " > " + name;
    path = found == all.end() ? 0 : found->parent_path;
  }
  return name;
}

uint64_t child_path(uint64_t parent_path, const Site& site) {
  const uint64_t path = mix_bits(parent_path ^ site.id());
  return path == 0 ? 1 : path;
}

}  // namespace kintsugi::sight
