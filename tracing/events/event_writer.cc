#include "tracing/events/event_writer.h"

namespace kintsugi::tracing {

EventWriter::EventWriter(std::span<const flow::Attribute> of_directives) {
  recorded_.attributes.resize(static_cast<size_t>(Join::kCount));
  constexpr const char* kNames[] = {"coroutine", "spawned", "call"};
  for (size_t i = 0; i < recorded_.attributes.size(); ++i)
    recorded_.attributes[i].name = kNames[i];
  recorded_.attributes.insert(recorded_.attributes.end(), of_directives.begin(), of_directives.end());
}

void EventWriter::begin_process(flow::Process process) {
  recorded_.processes.push_back(std::move(process));
  lanes_ = 0;
}

flow::FunctionId EventWriter::function(const std::string& name) {
  const auto [found, added] =
      functions_.try_emplace(name, static_cast<flow::FunctionId>(recorded_.functions.size()));
  if (added) recorded_.functions.push_back(name);
  return found->second;
}

flow::Event& EventWriter::add(flow::Event event) {
  event.process = static_cast<uint32_t>(recorded_.processes.size() - 1);
  return recorded_.events.emplace_back(event);
}

void EventWriter::join(uint32_t lane, int64_t at_ns, flow::Kind directive, Join attribute, uint64_t value,
                       flow::FunctionId function) {
  join(lane, at_ns, {directive, static_cast<uint32_t>(attribute), value}, function);
}

void EventWriter::join_by_directive(uint32_t lane, int64_t at_ns, const flow::Directive& directive,
                                    uint64_t value, flow::FunctionId function) {
  const uint32_t attribute = static_cast<uint32_t>(Join::kCount) + directive.attribute;
  join(lane, at_ns, {directive.scope, attribute, value}, function);
}

void EventWriter::join(uint32_t lane, int64_t at_ns, const Joined& joined, flow::FunctionId function) {
  flow::Event& event =
      add({.time_ns = at_ns, .thread = lane, .function = function, .kind = joined.directive});
  event.attribute = joined.attribute;
  event.value = joined.value;
}

void EventWriter::frame(flow::Event event, uint64_t channel) {
  const auto [found, added] =
      channels_.try_emplace(channel, static_cast<uint32_t>(recorded_.channels.size()));
  if (added) recorded_.channels.push_back({.datagrams = true});
  event.channel = found->second;
  add(event);
}

}  // namespace kintsugi::tracing
