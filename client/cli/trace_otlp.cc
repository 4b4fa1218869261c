#include "client/cli/trace_otlp.h"

#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include <fmt/ostream.h>

#include "client/cli/json.h"
#include "common/base/hash.h"
#include "common/rpc/method.h"

namespace kintsugi::cli {
namespace {

using flow::EventId;

constexpr int kInternal = 1, kServer = 2;  ///< values of SpanKind in OpenTelemetry's protocol

struct Span {
  int64_t begin_ns = std::numeric_limits<int64_t>::max(), end_ns = 0;
};

class Spans {
 public:
  explicit Spans(const tracing::Separated& separated)
      : trace_(separated.trace), flows_(separated.flows), begin_(trace_.size(), flow::kNone) {
    for (EventId id = 0; id < trace_.size(); ++id) {
      Span& span = spans_[begin_of(id)];
      span.begin_ns = std::min(span.begin_ns, trace_.event(id).time_ns);
      span.end_ns = std::max(span.end_ns, trace_.event(id).time_ns);
    }
    for (const auto& [begin, span] : spans_)
      has_calls_[flows_.of[begin]] |= is_call(begin);
  }

  void write(std::ostream& out) {
    out << R"({"resourceSpans":[)";
    for (uint32_t process = 0; process < trace_.processes().size(); ++process) {
      fmt::print(
          out,
          R"({}{{"resource":{{"attributes":[{},{}]}},"scopeSpans":[{{"scope":{{"name":"kintsugi.trace"}},"spans":[)",
          process == 0 ? "\n" : ",\n", attribute("service.name", trace_.processes()[process].binary),
          attribute("service.instance.id", trace_.processes()[process].name));
      const char* before = "\n";
      for (const auto& [begin, span] : spans_) {
        if (trace_.event(begin).process != process || !has_calls_[flows_.of[begin]]) continue;
        out << before << to_json(begin, span).compact();
        before = ",\n";
      }
      out << "]}]}";
    }
    out << "\n]}\n";
  }

 private:
  static std::string attribute(const char* name, const std::string& value) {
    return Json{{"key", name}, {"value", Json{{"stringValue", value}}}}.compact();
  }

  bool is_call(EventId id) const {
    const flow::Event& event = trace_.event(id);
    if (event.kind != flow::Kind::kRecv) return false;
    const auto method = rpc::method_named(trace_.name_of(event.function));
    return method && method != rpc::Method::kTrace;
  }

  /// Returns the event with which the span of `id` begins.
  EventId begin_of(EventId id) {
    EventId at = id;
    for (; begin_[at] == flow::kNone; at = flows_.parent[at]) {
      if (flows_.parent[at] == flow::kNone || is_call(at)) {
        begin_[at] = at;
        break;
      }
      path_.push_back(at);
    }
    for (; !path_.empty(); path_.pop_back())
      begin_[path_.back()] = begin_[at];
    return begin_[id];
  }

  /// The time at which a flow began is part of its id, so that flows of two exports have different ones.
  std::string trace_id(flow::FlowId flow) const {
    const int64_t began_ns = trace_.event(flows_.flows[flow].root).time_ns;
    return fmt::format("{:016x}{:016x}", mix_bits(static_cast<uint64_t>(began_ns)), flow + 1);
  }

  Json to_json(EventId begin, const Span& span) {
    const bool served = is_call(begin);
    const flow::Event& event = trace_.event(begin);
    Json json{{"traceId", trace_id(flows_.of[begin])},
              {"spanId", fmt::format("{:016x}", begin + 1)},
              {"name",
               served ? std::string(trace_.name_of(event.function)) : trace_.processes()[event.process].name},
              {"kind", served ? kServer : kInternal},
              {"startTimeUnixNano", std::to_string(span.begin_ns)},
              {"endTimeUnixNano", std::to_string(span.end_ns)}};
    if (const EventId parent = flows_.parent[begin]; parent != flow::kNone)
      json["parentSpanId"] = fmt::format("{:016x}", begin_of(parent) + 1);
    return json;
  }

  const flow::Trace& trace_;
  const flow::Flows& flows_;
  std::vector<EventId> begin_;  ///< by event, once it is known
  std::vector<EventId> path_;
  std::map<EventId, Span> spans_;  ///< by the event with which each begins
  std::map<flow::FlowId, bool> has_calls_;
};

}  // namespace

void write_otlp(std::ostream& out, const tracing::Separated& separated) {
  Spans(separated).write(out);
}

}  // namespace kintsugi::cli
