#include "client/cli/trace_text.h"

#include <algorithm>
#include <array>
#include <climits>

#include <fmt/format.h>
#include <unistd.h>

#include "client/cli/printable.h"
#include "tracing/repository/elf_image.h"
#include "tracing/repository/names.h"
#include "tracing/repository/sled_map.h"

namespace kintsugi::cli {
namespace {

using tracing::Kind;
using tracing::Record;

constexpr double kNanosecondsOfAMicrosecond = 1000;

/// Where the binary may be; the likeliest place first.
std::vector<std::string> places_of(const tracing::Trace& trace, const std::string& binary) {
  if (!binary.empty()) return {binary};
  std::vector<std::string> places{trace.program};
  std::array<char, PATH_MAX> own{};
  if (const ssize_t length = ::readlink("/proc/self/exe", own.data(), own.size()); length > 0) {
    const std::string path(own.data(), static_cast<size_t>(length));
    places.push_back(path.substr(0, path.rfind('/')) +
                     trace.program.substr(std::min(trace.program.rfind('/'), trace.program.size())));
  }
  return places;
}

Result<std::vector<std::string>> names_in(const tracing::Trace& trace, const std::string& path) {
  KINTSUGI_ASSIGN(const tracing::MappedFile file, tracing::MappedFile::open(path));
  const auto image = tracing::ElfImage::parse(file.bytes());
  if (!image) return image.error().with_context(path);
  if (image->build_id() != trace.build_id)
    return Status{Code::kConflict, fmt::format("{} is another build than the one that was traced", path)};
  const auto sleds = tracing::read_sleds(*image);
  if (!sleds) return sleds.error().with_context(path);
  std::vector<std::string> names;
  for (const std::string_view mangled : tracing::mangled_names(*image, *sleds))
    names.push_back(tracing::short_name(mangled));
  if (names.size() != trace.functions)
    return Status{Code::kConflict, fmt::format("{} has other functions than the trace", path)};
  return names;
}

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

/// Calls `tell` with each record and how deep it lies.
template <class Tell>
void for_records(const tracing::ThreadTrace& thread, Tell tell) {
  size_t depth = tracing::stack_at_begin(thread).size();
  for (const Record& record : thread.records) {
    if (record.kind == Kind::kExit && depth > 0) --depth;
    tell(record, depth);
    if (record.kind == Kind::kEntry) ++depth;
  }
}

}  // namespace

Result<std::vector<std::string>> function_names(const tracing::Trace& trace, const std::string& binary) {
  Status first;
  for (const std::string& place : places_of(trace, binary)) {
    Result<std::vector<std::string>> names = names_in(trace, place);
    if (names) return names;
    if (first.ok()) first = names.error();
  }
  return Status{first.code(), fmt::format("{}; --binary names the binary that was traced", first.message())};
}

void print_trace(const tracing::Trace& trace, const std::vector<std::string>& names) {
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
                 name_of(record, names));
    });
  }
}

Json to_json(const tracing::Trace& trace, const std::vector<std::string>& names) {
  Json threads = Json::array();
  for (const tracing::ThreadTrace& thread : trace.threads) {
    Json records = Json::array();
    for_records(thread, [&](const Record& record, size_t depth) {
      records.push_back({{"ns", trace.nanoseconds(record.ticks)},
                         {"event", word_of(record)},
                         {"function", name_of(record, names)},
                         {"depth", depth}});
    });
    threads.push_back(
        {{"tid", thread.tid}, {"name", thread.name}, {"lost", thread.lost}, {"records", std::move(records)}});
  }
  return {{"program", trace.program},           {"pid", trace.pid},   {"start", trace.start},
          {"end", tracing::name_of(trace.end)}, {"lost", trace.lost}, {"threads", std::move(threads)}};
}

}  // namespace kintsugi::cli
