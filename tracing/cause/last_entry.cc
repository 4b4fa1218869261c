#include "tracing/cause/last_entry.h"

#include <algorithm>
#include <map>

namespace kintsugi::cause {
namespace {

bool is_exit(flow::Kind kind) {
  return kind == flow::Kind::kExit || kind == flow::Kind::kUnwound;
}

bool is_idle(const anomaly::CallPaths& paths, anomaly::PathId path, std::span<const std::string> idle) {
  return paths.depth(path) > 0 && std::ranges::find(idle, paths.last_name(path)) != idle.end();
}

/// The last entry of each thread of control.
template <class Wanted>
std::vector<LastEntry> entries_of(const flow::Trace& trace, anomaly::CallPaths& paths, Wanted wanted,
                                  std::span<const std::string> idle) {
  const anomaly::TraceNames names(trace, paths);
  std::vector<LastEntry> found;
  for (const flow::Thread& thread : trace.threads()) {
    anomaly::StackWalk stack(paths, names, thread.process);
    LastEntry last{.process = thread.process};
    // The stack is followed up to the last event that counts, and in threads without one not at all.
    size_t count = thread.events.size();
    while (count > 0 && !wanted(thread.events[count - 1]))
      --count;
    for (flow::EventId id : thread.events.first(count)) {
      const anomaly::PathId before = stack.now(), after = stack.step(trace.event(id));
      if (!wanted(id)) continue;
      const flow::Kind kind = trace.event(id).kind;
      last.event = id;
      // Who has just left a place where it waited runs again in the function around that.
      const bool runs_again = is_idle(paths, before, idle) && paths.depth(after) > 0;
      last.returned = is_exit(kind) && before != after && !runs_again;
      last.path = last.returned ? before : after;
    }
    if (last.event != flow::kNone) found.push_back(last);
  }
  return found;
}

/// Tells which threads of control of one process say what it did last.
class Latest {
 public:
  Latest(const flow::Trace& trace, const anomaly::CallPaths& paths, std::span<const std::string> idle)
      : trace_(trace), paths_(paths), idle_(idle) {}

  /// The one that ran last, or else any. Behind it, if it ran, the idle one that it left last: its coroutine, whatever that called.
  std::vector<LastEntry> of(std::span<const LastEntry> all) const {
    const LastEntry* latest = nullptr;
    for (const LastEntry& one : all)
      if (latest == nullptr || is_later(one, *latest)) latest = &one;
    if (latest == nullptr) return {};
    const LastEntry* left = nullptr;
    for (const LastEntry& one : all)
      if (!is_idle(*latest) && is_idle(one) && at(one) <= at(*latest) &&
          (left == nullptr || at(one) >= at(*left)))
        left = &one;
    return left == nullptr ? std::vector{*latest} : std::vector{*latest, *left};
  }

 private:
  int64_t at(const LastEntry& one) const { return trace_.event(one.event).time_ns; }
  /// Who left something last has not begun to wait.
  bool is_idle(const LastEntry& one) const {
    return !is_exit(trace_.event(one.event).kind) && cause::is_idle(paths_, one.path, idle_);
  }
  bool is_later(const LastEntry& one, const LastEntry& other) const {
    return is_idle(one) == is_idle(other) ? at(one) > at(other) : is_idle(other);
  }

  const flow::Trace& trace_;
  const anomaly::CallPaths& paths_;
  const std::span<const std::string> idle_;
};

template <class Wanted>
std::vector<LastEntry> find(const flow::Trace& trace, anomaly::CallPaths& paths, Wanted wanted,
                            std::span<const std::string> idle = {}) {
  std::map<uint32_t, std::vector<LastEntry>> by_process;
  for (const LastEntry& one : entries_of(trace, paths, wanted, idle))
    by_process[one.process].push_back(one);
  const Latest latest(trace, paths, idle);
  std::vector<LastEntry> found;
  for (const auto& [process, all] : by_process)
    for (const LastEntry& one : latest.of(all))
      found.push_back(one);
  return found;
}

}  // namespace

std::vector<LastEntry> last_entries(const flow::Trace& trace, anomaly::CallPaths& paths,
                                    std::span<const std::string> idle) {
  return find(trace, paths, [](flow::EventId) { return true; }, idle);
}

std::vector<LastEntry> last_entries(const flow::Trace& trace, const flow::Flows& flows, flow::FlowId flow,
                                    anomaly::CallPaths& paths) {
  return find(trace, paths, [&](flow::EventId id) { return flows.of[id] == flow; });
}

}  // namespace kintsugi::cause
