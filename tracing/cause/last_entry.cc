#include "tracing/cause/last_entry.h"

namespace kintsugi::cause {
namespace {

template <class Wanted>
std::vector<LastEntry> find(const flow::Trace& trace, anomaly::CallPaths& paths, Wanted wanted) {
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
      last.returned = (kind == flow::Kind::kExit || kind == flow::Kind::kUnwound) && before != after;
      last.path = last.returned ? before : after;
    }
    if (last.event == flow::kNone) continue;
    if (found.empty() || found.back().process != thread.process)
      found.push_back(last);
    else if (trace.event(last.event).time_ns > trace.event(found.back().event).time_ns)
      found.back() = last;
  }
  return found;
}

}  // namespace

std::vector<LastEntry> last_entries(const flow::Trace& trace, anomaly::CallPaths& paths) {
  return find(trace, paths, [](flow::EventId) { return true; });
}

std::vector<LastEntry> last_entries(const flow::Trace& trace, const flow::Flows& flows, flow::FlowId flow,
                                    anomaly::CallPaths& paths) {
  return find(trace, paths, [&](flow::EventId id) { return flows.of[id] == flow; });
}

}  // namespace kintsugi::cause
