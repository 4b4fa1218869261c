#include "client/cli/trace_text.h"

#include <fmt/format.h>

#include "client/cli/printable.h"

namespace kintsugi::cli {
namespace {

using tracing::Kind;
using tracing::Record;

constexpr double kNanosecondsOfAMicrosecond = 1000;

std::string_view word_of(const Record& record) {
  if (record.kind == Kind::kEntry) return "enter";
  if (record.kind == Kind::kStart) return "start";
  if (record.kind != Kind::kExit) return "other";
  if ((record.flags & tracing::kUnwound) != 0) return "unwound";
  return (record.flags & tracing::kTail) != 0 ? "tail" : "leave";
}

/// What a stripped binary does not name is shown by its number.
std::string name_of(const Record& record, const std::vector<std::string>& names) {
  const std::string& name = names[record.function - 1];
  return name.empty() ? fmt::format("function {}", record.function) : shown_message(name);
}

/// Calls `tell` with each record and how deep it lies; arguments are nothing to read.
template <class Tell>
void for_records(const tracing::ThreadTrace& thread, Tell tell) {
  size_t depth = tracing::stack_at_begin(thread).size();
  for (const Record& record : thread.records) {
    if (record.kind == Kind::kArgument) continue;
    if (record.kind == Kind::kExit && depth > 0) --depth;
    tell(record, depth);
    if (record.kind == Kind::kEntry) ++depth;
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
  for (const tracing::ThreadTrace& thread : trace.threads) {
    fmt::print("\nthread {} {}\n", thread.tid, shown_name(thread.name));
    for_records(thread, [&](const Record& record, size_t depth) {
      fmt::print("{:>14.3f} us  {:<7} {:{}}{}\n",
                 trace.nanoseconds(record.ticks) / kNanosecondsOfAMicrosecond, word_of(record), "", 2 * depth,
                 name_of(record, named.functions));
    });
  }
}

Json to_json(const tracing::NamedTrace& named) {
  const tracing::Trace& trace = named.trace;
  Json threads = Json::array();
  for (const tracing::ThreadTrace& thread : trace.threads) {
    Json records = Json::array();
    for_records(thread, [&](const Record& record, size_t depth) {
      records.push_back({{"ns", trace.nanoseconds(record.ticks)},
                         {"event", word_of(record)},
                         {"function", name_of(record, named.functions)},
                         {"depth", depth}});
    });
    threads.push_back(
        {{"tid", thread.tid}, {"name", thread.name}, {"lost", thread.lost}, {"records", std::move(records)}});
  }
  return {{"program", trace.program},           {"pid", trace.pid},   {"start", trace.start},
          {"end", tracing::name_of(trace.end)}, {"lost", trace.lost}, {"threads", std::move(threads)}};
}

}  // namespace kintsugi::cli
