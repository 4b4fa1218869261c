/// What the threads of a process did, one after the other in the order of time.
#pragma once

#include <array>
#include <optional>
#include <queue>
#include <vector>

#include "tracing/records/trace_reader.h"

namespace kintsugi::tracing {

struct Step {
  size_t thread = 0;  ///< a place in Trace::threads
  int64_t unix_ns = 0;
  Record record;  ///< no argument
  /// Arguments of an entry, and at kReturnedPlace - 1 what an exit returned; 0: it was not recorded.
  std::array<uint64_t, kReturnedPlace> arguments{};
  uint8_t recorded = 0;  ///< which of them the recording has: bit 0 stands for the first one
};

class Steps {
 public:
  explicit Steps(const Trace& trace);
  /// None: there are no more.
  std::optional<Step> next();

 private:
  /// A thread with its next record. The earliest one is the greatest, for std::priority_queue.
  struct Waiting {
    uint64_t ticks = 0;
    size_t thread = 0;
    bool operator<(const Waiting& other) const {
      return std::pair(ticks, thread) > std::pair(other.ticks, other.thread);
    }
  };
  void wait(size_t thread);
  const Record* at(size_t thread) const;

  const Trace& trace_;
  std::vector<size_t> next_;  ///< by thread: a place in its records
  std::priority_queue<Waiting> waiting_;
};

}  // namespace kintsugi::tracing
