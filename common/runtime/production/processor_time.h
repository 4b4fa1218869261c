/// Linux counts how long this process ran, and how long it could have run but had no processor. This reads both.
///
/// A thread that is ready and waits for a processor looks from everywhere else like one that works slowly. Only the
/// kernel knows the two apart (/proc/self/task/N/schedstat); and it says for how long anybody on the machine had to
/// wait like that (/proc/pressure/cpu).
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include <sys/types.h>

#include "common/runtime/clock.h"

namespace kintsugi::runtime {

struct ProcessorTimes {
  Duration ran{}, delayed{};
};

/// Totals since the start, which never fall. Zero or empty: the kernel does not say.
struct SystemFacts {
  ProcessorTimes thread;   ///< the thread that was asked for
  ProcessorTimes process;  ///< all threads, including those that have ended
  /// How long, since the machine's start, some task of it could have run and had no processor.
  Duration pressure{};
  uint64_t memory_bytes = 0;  ///< resident memory
};

/// Not thread-safe; may belong to any thread.
class ProcessorClock {
 public:
  static constexpr size_t kMostThreads = 256;  ///< further threads of the process are ignored

  /// Tests give another root than /proc.
  explicit ProcessorClock(std::filesystem::path proc = "/proc");

  /// `thread`: as gettid() of it says; 0: none.
  SystemFacts read(pid_t thread);
  /// Equal in all processes of a machine until it starts anew, also in its containers; empty when unknown.
  const std::string& machine() const { return machine_; }

 private:
  const std::filesystem::path proc_;
  std::string machine_;
  std::map<std::string, ProcessorTimes> living_;  ///< key: thread id; times at the last reading
  ProcessorTimes ended_;                          ///< sum over the threads that have ended
};

}  // namespace kintsugi::runtime
