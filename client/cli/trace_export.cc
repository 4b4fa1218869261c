#include "client/cli/trace_export.h"

#include <algorithm>

#include <fmt/ostream.h>

#include "client/cli/json.h"
#include "tracing/anomaly/profile.h"

namespace kintsugi::cli {
namespace {

using flow::Event;
using flow::EventId;

constexpr double kNanosecondsOfAMicrosecond = 1000;

Json array_of(const std::vector<std::string>& names) {
  Json all = Json::array();
  for (const std::string& name : names)
    all.push_back(name);
  return all;
}

/// Writes the elements of an array, one a line.
class Elements {
 public:
  explicit Elements(std::ostream& out) : out_(out) {}
  template <class... Arguments>
  void add(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    out_ << (first_ ? "\n" : ",\n");
    fmt::print(out_, format, std::forward<Arguments>(arguments)...);
    first_ = false;
  }

 private:
  std::ostream& out_;
  bool first_ = true;
};

class Chrome {
 public:
  Chrome(std::ostream& out, const tracing::Separated& separated)
      : trace_(separated.trace),
        flows_(separated.flows),
        waits_(tracing::wait_names(separated.settings)),
        elements_(out) {
    for (const std::string& name : trace_.functions())
      names_.push_back(Json(name).compact());
    for (const Event& event : trace_.events())
      began_ns_ = std::min(began_ns_, event.time_ns);
  }

  void write() {
    for (size_t i = 0; i < trace_.processes().size(); ++i)
      elements_.add(R"({{"ph":"M","name":"process_name","pid":{},"tid":0,"args":{{"name":{}}}}})", i,
                    Json(trace_.processes()[i].name).compact());
    write_waiting();
    for (const flow::Thread& lane : trace_.threads())
      write_lane(lane);
    const flow::Matching matching = flow::match_messages(trace_);
    for (size_t i = 0; i < matching.units.size(); ++i) {
      const flow::Unit& unit = matching.units[i];
      if (unit.send != flow::kNone && unit.recv != flow::kNone) {
        write_end_of_arrow("s", i, unit.send);
        write_end_of_arrow("f", i, unit.recv);
      } else if (unit.send != flow::kNone) {
        write_lone_end("sent", unit.send);
      } else if (unit.recv != flow::kNone) {
        write_lone_end("received", unit.recv);
      }
    }
  }

 private:
  double at_us(int64_t at_ns) const {
    return static_cast<double>(at_ns - began_ns_) / kNanosecondsOfAMicrosecond;
  }

  /// Which functions say nothing of what a flow did: other tools pass this over.
  void write_waiting() {
    elements_.add(R"({{"ph":"M","name":"waiting","pid":0,"tid":0,"args":{}}})",
                  Json{{"waits", array_of(waits_.waits)},
                       {"others", array_of(waits_.others)},
                       {"aside", array_of(waits_.aside)}}
                      .compact());
  }

  void write_lane(const flow::Thread& lane) {
    std::vector<flow::FunctionId> open;
    const auto leave = [&](int64_t at_ns) {
      elements_.add(R"({{"ph":"E","pid":{},"tid":{},"ts":{:.3f}}})", lane.process, lane.number, at_us(at_ns));
      open.pop_back();
    };
    for (const EventId id : lane.events) {
      const Event& event = trace_.event(id);
      if (event.kind == flow::Kind::kEntry) {
        elements_.add(R"({{"ph":"B","pid":{},"tid":{},"ts":{:.3f},"name":{},"args":{{"flow":{}}}}})",
                      lane.process, lane.number, at_us(event.time_ns), names_[event.function], flows_.of[id]);
        open.push_back(event.function);
      } else if (event.kind == flow::Kind::kExit || event.kind == flow::Kind::kUnwound) {
        // One that was entered before it was traced has no beginning.
        if (std::ranges::find(open, event.function) == open.end()) continue;
        while (open.back() != event.function)
          leave(event.time_ns);
        leave(event.time_ns);
      }
    }
    const int64_t last_ns =
        std::max(trace_.event(lane.events.back()).time_ns, trace_.processes()[lane.process].end_ns);
    while (!open.empty())
      leave(last_ns);
  }

  void write_end_of_arrow(const char* phase, size_t number, EventId id) {
    const Event& event = trace_.event(id);
    elements_.add(
        R"({{"ph":"{}","bp":"e","cat":"frame","id":{},"pid":{},"tid":{},"ts":{:.3f},"name":{},"args":{{"flow":{},"call":"{:x}"}}}})",
        phase, number, event.process, event.thread, at_us(event.time_ns), names_[event.function],
        flows_.of[id], call_of(id));
  }

  /// The process at the other end of the frame is not recorded. Flows that begin with such a frame have their method from it.
  void write_lone_end(const char* what, EventId id) {
    const Event& event = trace_.event(id);
    elements_.add(
        R"({{"ph":"i","s":"t","cat":"frame","pid":{},"tid":{},"ts":{:.3f},"name":{},"args":{{"flow":{},"call":"{:x}","frame":"{}"}}}})",
        event.process, event.thread, at_us(event.time_ns), names_[event.function], flows_.of[id], call_of(id),
        what);
  }

  /// All frames of one call have it, in both processes. Behind each frame stands the directive that joins it to its call.
  uint64_t call_of(EventId id) const {
    if (id + 1 == trace_.size()) return 0;
    const Event& behind = trace_.event(id + 1);
    const bool joins =
        flow::is_directive(behind.kind) && behind.attribute == static_cast<uint32_t>(tracing::Join::kCall);
    return joins ? behind.value : 0;
  }

  const flow::Trace& trace_;
  const flow::Flows& flows_;
  const anomaly::WaitNames waits_;
  Elements elements_;
  std::vector<std::string> names_;  ///< names of functions, as JSON
  int64_t began_ns_ = std::numeric_limits<int64_t>::max();
};

/// Semicolons are between functions, and a blank is before the number.
std::string as_frame(std::string name) {
  std::ranges::replace(name, ';', ',');
  std::ranges::replace(name, ' ', '_');
  return name;
}

}  // namespace

void write_chrome(std::ostream& out, const tracing::Separated& separated) {
  out << R"({"displayTimeUnit":"ns","traceEvents":[)";
  Chrome(out, separated).write();
  out << "\n]}\n";
}

void write_folded(std::ostream& out, const tracing::Separated& separated) {
  anomaly::CallPaths paths(anomaly::Detail::kPaths);
  const auto totals = anomaly::totals_of(separated.trace, anomaly::groups_by_process(separated.trace), paths);
  for (size_t process = 0; process < totals.size(); ++process)
    for (const anomaly::PathTotal& total : totals[process]) {
      if (total.self_ns <= 0 || paths.depth(total.path) == 0) continue;
      std::string line;
      for (anomaly::PathId path = total.path; paths.depth(path) > 0; path = paths.parent(path))
        line.insert(0, ";" + as_frame(paths.last_name(path)));
      fmt::print(out, "{}{} {}\n", as_frame(separated.trace.processes()[process].name), line, total.self_ns);
    }
}

}  // namespace kintsugi::cli
