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
  /// It starves when it waited for most of all time, and for nearly all of the time that it had something to do: with
  /// thirty times as much work as processors everybody gets as little.
  static constexpr double kMostOfTheTime = 0.5, kNearlyAll = 0.97;

  /// Less than this may be spent waiting for a processor by chance where many want to run.
  static constexpr Duration kStretch = std::chrono::milliseconds(1500);

  struct Share {
    bool known = false;
    Duration of{};                ///< length of the stretch, by the sender's clock
    double ran = 0, delayed = 0;  ///< event loop's thread: seconds of each second
    double all_delayed = 0;       ///< all threads of the process together; may exceed 1
    double pressure = 0;  ///< seconds of each second in which some task of the machine waited for a processor
    double stood_still = 0;  ///< seconds of each second for which a thread that should wake up did not

    /// The delay against the time that it had something to do.
    double of_busy() const { return ran + delayed > 0 ? delayed / (ran + delayed) : 0; }
    bool suffers() const { return known && delayed >= kLeastDelay && of_busy() >= kSuffers; }
    /// It hears and does next to nothing: unlike on a busy machine, it does not even get its share now and then.
    bool starves() const { return known && delayed >= kMostOfTheTime && of_busy() >= kNearlyAll; }
  };

  /// Takes in what is new. Processes that are gone are forgotten.
  void update(const model::Snapshot& snapshot);
  /// From about `from` until the newest report.
  Share since(uint64_t process, TimePoint from) const;
  /// The shortest stretch of kStretch or longer that ends with the newest report.
  Share latest(uint64_t process) const;
  /// For how long it has starved from each report to the next, by its own clock, until the newest one.
  Duration starves_for(uint64_t process) const;

  /// What runs on the same machine, and for people the machine's name. Empty: it is not told.
  const std::string& machine_of(uint64_t process) const;
  std::vector<uint64_t> on_machine(const std::string& machine) const;
  /// Those that tell it.
  std::vector<uint64_t> processes() const;

 private:
  struct Sample {
    TimePoint at;
    uint64_t uptime_ns = 0, ran = 0, delayed = 0, all_delayed = 0, pressure = 0, stood_still = 0;
  };
  struct Process {
    std::string machine;
    std::deque<Sample> samples;
  };
  static Share between(const Sample& first, const Sample& last);

  std::map<uint64_t, Process> processes_;
};

}  // namespace kintsugi::progress
