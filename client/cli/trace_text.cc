#include "client/cli/trace_text.h"

#include <fmt/format.h>

#include "client/cli/json.h"
#include "client/cli/printable.h"

namespace kintsugi::cli {
namespace {

using tracing::Record;

std::string_view word_of(const Record& record) {
  if (record.kind == tracing::Kind::kEntry) return "enter";
  if (record.kind == tracing::Kind::kStart) return "start";
  if (record.kind != tracing::Kind::kExit) return "other";
  if ((record.flags & tracing::kUnwound) != 0) return "unwound";
  return (record.flags & tracing::kTail) != 0 ? "tail" : "leave";
}

/// By function - 1. Records are many more than functions, so each name is made fit to be shown once. What a stripped binary does not
/// name is shown by its number.
template <class Show>
std::vector<std::string> shown_names(const tracing::NamedTrace& named, Show show) {
  std::vector<std::string> names;
  for (size_t i = 0; i < named.functions.size(); ++i)
    names.push_back(
        show(named.functions[i].empty() ? fmt::format("function {}", i + 1) : named.functions[i]));
  return names;
}

/// Calls `tell` with each record and how deep it lies; arguments are nothing to read.
template <class Tell>
void for_records(const tracing::ThreadTrace& thread, Tell tell) {
  size_t depth = tracing::stack_at_begin(thread).size();
  for (const Record& record : thread.records) {
    if (record.kind == tracing::Kind::kArgument) continue;
    if (record.kind == tracing::Kind::kExit && depth > 0) --depth;
    tell(record, depth);
    if (record.kind == tracing::Kind::kEntry) ++depth;
  }
}

}  // namespace

void print_trace(const tracing::NamedTrace& named) {
  const tracing::Trace& trace = named.trace;
  size_t records = 0;
  for (const tracing::ThreadTrace& thread : trace.threads)
    records += thread.records.size();
  fmt::print("{} (process {}), start: {}; {}; {} records of {} threads, {} lost\n", shown_name(trace.program),
             trace.pid, shown_message(trace.start), tracing::name_of(trace.end), records,
             trace.threads.size(), trace.lost);
  const std::vector<std::string> names =
      shown_names(named, [](const std::string& name) { return shown_message(name); });
  for (const tracing::ThreadTrace& thread : trace.threads) {
    fmt::print("\nthread {} {}\n", thread.tid, shown_name(thread.name));
    for_records(thread, [&](const Record& record, size_t depth) {
      fmt::print("{:>14.3f} us  {:<7} {:{}}{}\n", trace.nanoseconds(record.ticks) / 1000, word_of(record), "",
                 2 * depth, names[record.function - 1]);
    });
  }
}

void print_trace_json(const tracing::NamedTrace& named) {
  const auto text = [](const std::string& value) { return Json(value).compact(); };
  const tracing::Trace& trace = named.trace;
  const std::vector<std::string> names = shown_names(named, text);
  fmt::print(R"({{"program":{},"pid":{},"start":{},"end":{},"lost":{},"threads":[)", text(trace.program),
             trace.pid, text(trace.start), text(std::string(tracing::name_of(trace.end))), trace.lost);
  for (size_t i = 0; i < trace.threads.size(); ++i) {
    const tracing::ThreadTrace& thread = trace.threads[i];
    fmt::print(R"({}{{"tid":{},"name":{},"lost":{},"records":[)", i == 0 ? "\n" : ",\n", thread.tid,
               text(thread.name), thread.lost);
    const char* before = "\n";
    for_records(thread, [&](const Record& record, size_t depth) {
      fmt::print(R"({}{{"ns":{},"event":"{}","function":{},"depth":{}}})", before,
                 trace.nanoseconds(record.ticks), word_of(record), names[record.function - 1], depth);
      before = ",\n";
    });
    fmt::print("\n]}}");
  }
  fmt::print("\n]}}\n");
}

}  // namespace kintsugi::cli
