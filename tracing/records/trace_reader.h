/// Reads a trace: one that is being written, one that has ended, or one whose process was killed.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "tracing/records/format.h"

namespace kintsugi::tracing {

struct ThreadTrace {
  uint32_t tid = 0;
  std::string name;
  uint64_t lost = 0;
  std::vector<Record> records;  ///< oldest first
  std::vector<uint32_t> stack;  ///< functions that the thread is in after the last record, outermost first
};

struct Trace {
  std::string program;   ///< path of the binary
  std::string build_id;  ///< raw bytes
  std::string start;
  uint32_t pid = 0;
  uint32_t functions = 0;
  Mode mode{};
  End end{};
  uint64_t lost = 0;  ///< records that found no room, of all threads
  ClockPair began, latest;
  std::vector<ThreadTrace> threads;

  /// Time since the recording began, in nanoseconds.
  double nanoseconds(uint64_t ticks) const;
};

/// kCorrupt, with what is wrong: this is no trace, only a part of one, or one that was damaged.
Result<Trace> parse_trace(std::span<const std::byte> bytes);
Result<Trace> read_trace(const std::string& path);

/// The functions that the thread was in before its oldest record, outermost first: what is open at the end, with all records taken
/// back. Empty when records were lost.
std::vector<uint32_t> stack_at_begin(const ThreadTrace& thread);

/// "detached", ...; for End::kNone what it means when nobody records any more.
std::string_view name_of(End end);

}  // namespace kintsugi::tracing
