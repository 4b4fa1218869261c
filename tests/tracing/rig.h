// Events by hand.
#pragma once

#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tracing/flow/flows.h"

namespace kintsugi::flow {

inline constexpr int64_t kSecond = 1'000'000'000;

/// A thread of a process.
struct At {
  uint32_t process = 0, thread = 0;
};

class Rig {
 public:
  Recorded recorded;

  uint32_t process(const std::string& name, const std::string& binary = "server") {
    recorded.processes.push_back({.name = name, .binary = binary});
    return static_cast<uint32_t>(recorded.processes.size() - 1);
  }
  uint32_t channel(bool datagrams = false) {
    recorded.channels.push_back({.datagrams = datagrams});
    return static_cast<uint32_t>(recorded.channels.size() - 1);
  }
  FunctionId function(const std::string& name) { return named(functions_, recorded.functions, name, name); }
  uint32_t attribute(const std::string& name, bool shared = false) {
    return named(attributes_, recorded.attributes, name, Attribute{.name = name, .shared = shared});
  }

  EventId add(Event event) {
    while (recorded.processes.size() <= event.process)
      process("process-" + std::to_string(recorded.processes.size()));
    recorded.events.push_back(event);
    return static_cast<EventId>(recorded.events.size() - 1);
  }
  EventId other(At at, int64_t time_ns = 0) { return add(base(at, time_ns, Kind::kOther)); }
  EventId start(At at, int64_t time_ns = 0) { return add(base(at, time_ns, Kind::kStart)); }
  EventId entry(At at, const std::string& name, int64_t time_ns = 0, uint32_t site = 0) {
    Event event = base(at, time_ns, Kind::kEntry);
    event.function = function(name);
    event.site = site;
    return add(event);
  }
  EventId exit(At at, const std::string& name, int64_t time_ns = 0) {
    Event event = base(at, time_ns, Kind::kExit);
    event.function = function(name);
    return add(event);
  }
  EventId send(At at, uint32_t channel, int64_t offset, uint64_t size, int64_t time_ns = 0) {
    return message(at, Kind::kSend, channel, offset, size, time_ns);
  }
  EventId recv(At at, uint32_t channel, int64_t offset, uint64_t size, int64_t time_ns = 0) {
    return message(at, Kind::kRecv, channel, offset, size, time_ns);
  }
  EventId directive(At at, Kind kind, const std::string& name, uint64_t value, int64_t time_ns = 0,
                    const std::string& in = "") {
    Event event = base(at, time_ns, kind);
    event.attribute = attribute(name);
    event.value = value;
    if (!in.empty()) event.function = function(in);
    return add(event);
  }

  Trace trace() const {
    auto trace = Trace::from(recorded);
    if (!trace) throw std::runtime_error(trace.error().to_string());
    return std::move(*trace);
  }

 private:
  static Event base(At at, int64_t time_ns, Kind kind) {
    return {.time_ns = time_ns, .process = at.process, .thread = at.thread, .kind = kind};
  }
  EventId message(At at, Kind kind, uint32_t channel, int64_t offset, uint64_t size, int64_t time_ns) {
    Event event = base(at, time_ns, kind);
    event.channel = channel;
    event.offset = offset;
    event.size = size;
    return add(event);
  }
  template <class Value>
  static uint32_t named(std::map<std::string, uint32_t>& ids, std::vector<Value>& values,
                        const std::string& name, Value value) {
    const auto [found, added] = ids.try_emplace(name, static_cast<uint32_t>(values.size()));
    if (added) values.push_back(std::move(value));
    return found->second;
  }

  std::map<std::string, uint32_t> functions_, attributes_;
};

inline Flows flows_in(const Trace& trace, const FlowSettings& settings = {}) {
  return build_flows(trace, match_messages(trace), settings);
}

}  // namespace kintsugi::flow
