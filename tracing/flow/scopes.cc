#include "tracing/flow/scopes.h"

#include <algorithm>
#include <unordered_map>

#include "common/base/hash.h"

namespace kintsugi::flow {
namespace {

struct Key {
  uint32_t attribute;
  uint64_t value;
  bool operator==(const Key&) const = default;
};
struct HashOfKey {
  size_t operator()(const Key& key) const { return mix_bits(key.value + mix_bits(key.attribute)); }
};

/// The scopes of one process that are open.
class Scopes {
 public:
  Scopes(const Trace& trace, std::vector<Continued>& out) : trace_(trace), out_(out) {}

  /// `head` is what the directive event labels.
  void take(EventId id, EventId head) {
    const Event& event = trace_.event(id);
    const Key key{event.attribute, event.value};
    const bool shared = trace_.attributes()[event.attribute].shared;
    if (event.kind == Kind::kBegin) {
      std::vector<EventId>& begins = open_[key];
      if (!shared) begins.clear();
      if (begins.size() <= kMostSharing) begins.push_back(id);
      return;
    }
    const auto found = open_.find(key);
    if (found == open_.end()) {
      if (event.kind == Kind::kEnd)
        out_.push_back({.event = id, .head = head});
      else
        open_.emplace(key, std::vector<EventId>{id});
      return;
    }
    const std::vector<EventId>& begins = found->second;
    out_.push_back({.event = id, .head = head, .begin = begins.front()});
    if (event.kind != Kind::kEnd) return;
    out_.back().further_begins.assign(begins.begin() + 1, begins.end());
    open_.erase(found);
  }

 private:
  const Trace& trace_;
  std::vector<Continued>& out_;
  std::unordered_map<Key, std::vector<EventId>, HashOfKey> open_;
};

/// A directive event labels the event of the same function before it, as do those that follow it.
bool labels(const Trace& trace, EventId id) {
  const Event& event = trace.event(id);
  const EventId before = trace.previous(id);
  return is_directive(event.kind) && event.function != kNone && before != kNone &&
         trace.event(before).function == event.function;
}

struct Timed {
  int64_t time_ns;
  EventId event, head;
};

}  // namespace

std::vector<Continued> match_directives(const Trace& trace) {
  std::vector<Continued> continued;
  const std::vector<Thread>& threads = trace.threads();
  for (size_t first = 0, end = 0; first < threads.size(); first = end) {
    std::vector<Timed> directives;
    for (; end < threads.size() && threads[end].process == threads[first].process; ++end) {
      int64_t latest = std::numeric_limits<int64_t>::min();  // A clock that steps back reorders no thread.
      EventId head = kNone;
      for (EventId id : threads[end].events) {
        const Event& event = trace.event(id);
        latest = std::max(latest, event.time_ns);
        if (!labels(trace, id)) head = id;
        if (is_directive(event.kind)) directives.push_back({latest, id, head});
      }
    }
    std::stable_sort(directives.begin(), directives.end(),
                     [](const Timed& a, const Timed& b) { return a.time_ns < b.time_ns; });
    Scopes scopes(trace, continued);
    for (const Timed& directive : directives)
      scopes.take(directive.event, directive.head);
  }
  std::sort(continued.begin(), continued.end(),
            [](const Continued& a, const Continued& b) { return a.event < b.event; });
  return continued;
}

}  // namespace kintsugi::flow
