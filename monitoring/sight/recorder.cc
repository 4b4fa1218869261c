#include "monitoring/sight/recorder.h"

#include <atomic>
#include <mutex>
#include <thread>
#include <unordered_map>

#include "common/runtime/production/steady_clock.h"
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
  RecorderLimits limits;
  mutable std::mutex mutex;  ///< guards `logs`, not the logs' contents
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
    : TraceRecorder(seed),
      clock_(clock),
      live_(clock, dynamic_cast<const runtime::SteadyClock*>(&clock) != nullptr),
      state_(std::make_unique<State>()) {
  state_->limits = limits;
}

Recorder::~Recorder() = default;

Context Recorder::root_context(TimePoint deadline) {
  Context context;
  context.deadline = deadline;
  if (!runtime::kSightCompiled) return context;
  context.trace.trace_id = new_id();
  context.recorder = this;
  return context;
}

Recorder::Opened Recorder::open(runtime::LiveHandle parent, const runtime::Opening& opening) {
  const int64_t now = live_.now_ns();
  return {live_.open(parent, opening, now), TimePoint(Duration(now))};
}

Recorder::Opened Recorder::open_lightly(runtime::LiveHandle parent, const Event& event,
                                        std::source_location where, runtime::RegionKind kind, bool begins) {
  LightTask* const light = live_.light();
  if (light == nullptr || (begins ? light->is_open() : !light->is_top(parent))) return {};
  const int64_t now = live_.own_now_ns();
  const runtime::LiveHandle region =
      begins ? light->begin(event, where, kind, now) : light->enter(event, where, kind, now);
  if (region.slot != 0) set_light(region.slot);
  return {region, TimePoint(Duration(now))};
}

void Recorder::close(runtime::LiveHandle region, uint64_t parent_path, Event& event) {
  if (LightTask* const light = live_.light(); light != nullptr && light->is_top(region)) {
    const int64_t now = live_.own_now_ns();
    const LiveRecord& record = light->leave(now, event.code);
    set_light(live_.last_touched());
    if (event.code == Code::kOk && now - record.entered_ns < PathTable::kAlwaysRecorded.count() &&
        !light->is_kept() && own_paths_ != nullptr && own_paths_->only_counts(event.path))
      return;
    light->keep();
    return keep(now, {record.covered_ns, record.role_path, record.where, true}, parent_path, event);
  }
  const int64_t now = live_.now_ns();
  keep(now, live_.close(region, now, event.code), parent_path, event);
}

[[gnu::noinline]] void Recorder::keep(int64_t now, const LiveWork::Closed& closed, uint64_t parent_path,
                                      Event& event) {
  event.duration = TimePoint(Duration(now)) - event.entered;
  event.self = std::max(Duration::zero(), event.duration - Duration(closed.covered_ns));
  ThreadLog& log = state_->log_of_this_thread();
  if (live_.light() != nullptr) own_paths_ = &log.paths;
  log.ring.push(event);
  log.paths.add(event, parent_path, closed);
}

runtime::LiveHandle Recorder::open_wait(const Context& context, runtime::WaitKind wait, uint64_t target,
                                        uint64_t target_span, uint8_t need, std::source_location where) {
  return live_.open_wait(context, wait, target, target_span, need, where);
}

void Recorder::close_wait(runtime::LiveHandle wait, Code outcome) {
  live_.close_wait(wait, outcome);
}

void Recorder::progress(runtime::LiveHandle region, uint64_t count) {
  live_.progress(region, count, live_.now_ns());
}

void Recorder::advance(runtime::LiveHandle region, uint64_t amount) {
  live_.advance(region, amount, live_.now_ns());
}

bool Recorder::knows_target(uint64_t id) {
  TargetTable* const targets = live_.own_targets();
  return targets != nullptr && targets->knows(id);
}

void Recorder::name_target(uint64_t id, std::string_view name, bool device) {
  if (TargetTable* const targets = live_.own_targets()) targets->name(id, name, device);
}

void Recorder::served(uint64_t call, const Site& site, Code outcome) {
  if (live_.light() != nullptr) served_.add(call, site, outcome, live_.own_now_ns());
}

void Recorder::complain(uint64_t target, uint16_t method) {
  if (TargetTable* const targets = live_.own_targets()) targets->complain(target, method);
}

void Recorder::count_bytes(uint64_t target, uint64_t in, uint64_t out) {
  if (TargetTable* const targets = live_.own_targets()) targets->count_bytes(target, in, out);
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

std::unordered_map<const Site*, uint64_t> Recorder::ended() const {
  std::unordered_map<const Site*, uint64_t> ended;
  std::lock_guard lock(state_->mutex);
  for (const auto& [thread, log] : state_->logs)
    log->paths.count_ended(ended);
  return ended;
}

std::vector<PathTotals> Recorder::totals() const {
  std::vector<PathTotals> totals;
  {
    std::unordered_map<uint64_t, size_t> places;
    std::lock_guard lock(state_->mutex);
    for (const auto& [thread, log] : state_->logs)
      log->paths.collect(totals, places);
  }
  std::sort(totals.begin(), totals.end(), [](const PathTotals& a, const PathTotals& b) {
    return std::tie(a.site->name, a.path) < std::tie(b.site->name, b.path);
  });
  return totals;
}

std::unordered_map<uint64_t, std::string> path_names(const std::vector<PathTotals>& totals) {
  std::unordered_map<uint64_t, const PathTotals*> by_path;
  for (const PathTotals& path : totals)
    by_path.emplace(path.path, &path);
  std::unordered_map<uint64_t, std::string> names;
  std::vector<const PathTotals*> chain;
  for (const PathTotals& wanted : totals) {
    // Up to the first context that has its name already, and down again. A calling context is a chain of distinct
    // entries, so it cannot be longer than the table.
    chain.clear();
    uint64_t path = wanted.path;
    std::string name;
    while (path != 0 && chain.size() <= totals.size()) {
      if (const auto known = names.find(path); known != names.end()) {
        name = known->second;
        break;
      }
      const auto found = by_path.find(path);
      if (found == by_path.end()) {
        name = "(remote)";
        break;
      }
      chain.push_back(found->second);
      path = found->second->parent_path;
    }
    for (auto step = chain.rbegin(); step != chain.rend(); ++step) {
      name += (name.empty() ? "" : " > ") + std::string((*step)->site->name);
      names.emplace((*step)->path, name);
    }
  }
  return names;
}

}  // namespace kintsugi::sight
