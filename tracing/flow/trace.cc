#include "tracing/flow/trace.h"

#include <algorithm>
#include <unordered_map>

#include <fmt/format.h>

#include "common/base/quote.h"

namespace kintsugi::flow {
namespace {

/// Differences of times and of places in a channel fit into 64 bits.
constexpr int64_t kFarthest = int64_t{1} << 61, kLatest = int64_t{1} << 62;

const char* wrong_with(const Recorded& recorded, const Event& event) {
  if (event.process >= recorded.processes.size()) return "of an unknown process";
  if (event.kind > kLastKind) return "of an unknown kind";
  if (event.time_ns < -kFarthest || event.time_ns > kLatest) return "of no time between 1897 and 2116";
  if (event.function != kNone && event.function >= recorded.functions.size()) return "of an unknown function";
  switch (event.kind) {
    case Kind::kEntry:
    case Kind::kExit:
    case Kind::kUnwound: return event.function == kNone ? "without a function" : nullptr;
    case Kind::kSend:
    case Kind::kRecv:
      if (event.channel >= recorded.channels.size()) return "of an unknown channel";
      if (event.offset < -kFarthest || event.offset > kFarthest ||
          event.size > static_cast<uint64_t>(kFarthest))
        return "beyond the end of every channel";
      return nullptr;
    case Kind::kBegin:
    case Kind::kUse:
    case Kind::kEnd:
      return event.attribute >= recorded.attributes.size() ? "of an unknown attribute" : nullptr;
    default: return nullptr;
  }
}

Status check(const Recorded& recorded) {
  if (recorded.events.size() > kMostEvents)
    return Status(Code::kLimitExceeded,
                  fmt::format("{} events, at most {} are analysed", recorded.events.size(), kMostEvents));
  for (size_t names : {recorded.processes.size(), recorded.functions.size(), recorded.channels.size(),
                       recorded.attributes.size()})
    if (names > kMostNames)
      return Status(Code::kLimitExceeded, fmt::format("{} names, at most {} are known", names, kMostNames));
  for (const Process& process : recorded.processes)
    if (process.end_ns < 0 || process.end_ns > kLatest)
      return Status(Code::kCorrupt, fmt::format("process {} ends at no time", quoted(process.name, 80)));
  for (size_t i = 0; i < recorded.events.size(); ++i)
    if (const char* wrong = wrong_with(recorded, recorded.events[i]))
      return Status(Code::kCorrupt, fmt::format("event {} is {}", i, wrong));
  return {};
}

}  // namespace

Result<Trace> Trace::from(Recorded recorded) {
  KINTSUGI_TRY(check(recorded));
  Trace trace(std::move(recorded));
  trace.find_threads();
  return trace;
}

void Trace::find_threads() {
  // Threads get numbers as they appear, then ranks; a stable counting sort by rank keeps program order.
  const std::vector<Event>& events = recorded_.events;
  std::unordered_map<uint64_t, uint32_t> seen;
  std::vector<uint64_t> keys;
  std::vector<uint32_t> counts, of_event(events.size());
  uint64_t last_key = 0;
  uint32_t last = kNone;
  for (size_t i = 0; i < events.size(); ++i) {
    const uint64_t key = uint64_t{events[i].process} << 32 | events[i].thread;
    if (last == kNone || key != last_key) {
      const auto [found, added] = seen.try_emplace(key, static_cast<uint32_t>(keys.size()));
      if (added) keys.push_back(key), counts.push_back(0);
      last = found->second, last_key = key;
    }
    of_event[i] = last;
    ++counts[last];
  }
  std::vector<uint32_t> order(keys.size()), at(keys.size());
  for (uint32_t i = 0; i < order.size(); ++i)
    order[i] = i;
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return keys[a] < keys[b]; });
  by_thread_.resize(events.size());
  uint32_t begin = 0;
  for (uint32_t thread : order) {
    threads_.push_back({.process = static_cast<uint32_t>(keys[thread] >> 32),
                        .number = static_cast<uint32_t>(keys[thread]),
                        .events = std::span<const EventId>(by_thread_).subspan(begin, counts[thread])});
    at[thread] = begin;
    begin += counts[thread];
  }
  for (EventId i = 0; i < events.size(); ++i)
    by_thread_[at[of_event[i]]++] = i;
  previous_.assign(events.size(), kNone);
  for (const Thread& thread : threads_)
    for (size_t i = 1; i < thread.events.size(); ++i)
      previous_[thread.events[i]] = thread.events[i - 1];
}

std::string_view Trace::name_of(FunctionId function) const {
  return function == kNone ? std::string_view("?") : std::string_view(recorded_.functions[function]);
}

}  // namespace kintsugi::flow
