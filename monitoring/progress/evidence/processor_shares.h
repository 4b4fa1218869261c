/// How much of the time the processes of a cluster could have run and had no processor: what tells a slow process from
/// one on a machine that is short of processor.
///
/// Reports bring totals of the operating system, each second; here they become shares of a stretch of time. Processes
/// that do not tell them have none.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "monitoring/model/snapshot.h"

namespace kintsugi::progress {

class ProcessorShares {
 public:
  static constexpr size_t kSamples = 64;  ///< samples of one process, one second apart
  /// A process suffers when it waited for a processor for this share of the time that it had something to do,
  static constexpr double kSuffers = 0.25;
  /// and for this share of all time.
  static constexpr double kLeastDelay = 0.005;

  struct Share {
    bool known = false;
    double ran = 0, delayed = 0;  ///< event loop's thread: seconds of each second
    double all_delayed = 0;       ///< all threads of the process together; may exceed 1
    double pressure = 0;  ///< seconds of each second in which some task of the machine waited for a processor

    /// The delay against the time that it had something to do.
    double of_busy() const { return ran + delayed > 0 ? delayed / (ran + delayed) : 0; }
    bool suffers() const { return known && delayed >= kLeastDelay && of_busy() >= kSuffers; }
  };

  /// Takes in what is new. Processes that are gone are forgotten.
  void update(const model::Snapshot& snapshot);
  /// From about `from` until the newest report.
  Share since(uint64_t process, TimePoint from) const;

  /// What runs on the same machine, and for people the machine's name. Empty: it is not told.
  const std::string& machine_of(uint64_t process) const;
  std::vector<uint64_t> on_machine(const std::string& machine) const;

 private:
  struct Sample {
    TimePoint at;
    uint64_t uptime_ns = 0, ran = 0, delayed = 0, all_delayed = 0, pressure = 0;
  };
  struct Process {
    std::string machine;
    std::deque<Sample> samples;
  };
  std::map<uint64_t, Process> processes_;
};

}  // namespace kintsugi::progress
