#include "monitoring/sight/otlp.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "common/base/hash.h"

namespace kintsugi::sight {
namespace {

/// A W3C trace id has 16 bytes: these eight, and then the trace's number.
constexpr uint64_t kTracePrefix = hash_name("kintsugi");

nlohmann::json otlp_attribute(std::string_view name, double value) {
  return {{"key", std::string(name)}, {"value", {{"doubleValue", value}}}};
}

nlohmann::json otlp_span(const Event& event, int64_t wall_minus_clock_ns) {
  nlohmann::json attributes = nlohmann::json::array();
  for (size_t i = 0; i < event.input_count; ++i)
    attributes.push_back(otlp_attribute(event.site->inputs[i], event.inputs[i]));
  for (size_t i = 0; i < kMaxOutputs; ++i)
    if (event.output_mask & (1u << i))
      attributes.push_back(otlp_attribute(event.site->outputs[i], event.outputs[i]));
  attributes.push_back(otlp_attribute("self_seconds", to_seconds(event.self)));
  const int64_t start = event.entered.time_since_epoch().count() + wall_minus_clock_ns;
  const std::string_view name = event.site->name;
  nlohmann::json span = {
      {"traceId", fmt::format("{:016x}{:016x}", kTracePrefix, event.trace_id)},
      {"spanId", fmt::format("{:016x}", event.span_id)},
      {"name", std::string(name)},
      // SPAN_KIND_CLIENT, SERVER, INTERNAL
      {"kind", name.starts_with("call.")    ? 3
               : name.starts_with("serve.") ? 2
                                            : 1},
      {"startTimeUnixNano", std::to_string(start)},
      {"endTimeUnixNano", std::to_string(start + event.duration.count())},
      {"attributes", std::move(attributes)},
      {"status", event.code == Code::kOk
                     ? nlohmann::json::object()
                     : nlohmann::json{{"code", 2}, {"message", std::string(code_name(event.code))}}}};
  if (event.parent_span_id != 0) span["parentSpanId"] = fmt::format("{:016x}", event.parent_span_id);
  return span;
}

nlohmann::json text_attribute(std::string_view name, const std::string& value) {
  return {{"key", std::string(name)}, {"value", {{"stringValue", value}}}};
}

}  // namespace

std::string otlp_request(std::span<const Event> spans, const Reporting& who, int64_t wall_minus_clock_ns) {
  nlohmann::json told = nlohmann::json::array();
  for (const Event& event : spans)
    told.push_back(otlp_span(event, wall_minus_clock_ns));
  nlohmann::json attributes = nlohmann::json::array();
  attributes.push_back(
      text_attribute("service.name", who.kind.empty() ? "kintsugi" : "kintsugi-" + who.kind));
  if (!who.name.empty()) attributes.push_back(text_attribute("service.instance.id", who.name));
  const nlohmann::json scope = {{"scope", {{"name", "kintsugi.sight"}}}, {"spans", std::move(told)}};
  const nlohmann::json resource = {{"resource", {{"attributes", std::move(attributes)}}},
                                   {"scopeSpans", nlohmann::json::array({scope})}};
  const nlohmann::json request = {{"resourceSpans", nlohmann::json::array({resource})}};
  return request.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace kintsugi::sight
