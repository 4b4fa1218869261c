/// Servers that answer errors at once. They are fast, so that nothing waits for them, and whoever chooses servers by their
/// speed sends them more. Not thread-safe.
#pragma once

#include <map>
#include <vector>

#include "monitoring/gray/party.h"
#include "monitoring/gray/recent_growth.h"

namespace kintsugi::gray {

struct ErrorSettings {
  Duration over = std::chrono::seconds(30);
  double share = 0.5;       ///< of its answers so many say that the server cannot do it
  uint64_t least = 10;      ///< and there are so many of them
  double of_others = 0.1;   ///< while of half of the other servers of its kind at most so many do
  size_t least_others = 3;  ///< that answer anything
  Duration ends_at = std::chrono::seconds(20);  ///< after the last such answer
};

/// What a process has answered since its start.
struct Answers {
  Party who;
  uint64_t all = 0;
  uint64_t failed = 0;  ///< by the server's own fault
  TimePoint at{};       ///< when this was reported
};

class ErrorWatch {
 public:
  explicit ErrorWatch(ErrorSettings settings = {}) : settings_(settings) {}

  /// All processes that report, once a second.
  void look(const std::vector<Answers>& processes, TimePoint now);
  /// One ERRORS verdict a process. Its factor is how many calls it takes for an answer.
  std::vector<proto::Verdict> alarms(TimePoint now) const;

 private:
  struct Known {
    Answers last;
    RecentGrowth all, failed;
    bool fails = false;
    TimePoint since{}, latest{};  ///< `latest`: when the last error was reported
  };
  struct Share {
    uint64_t all = 0, failed = 0;
    double value() const { return all == 0 ? 0 : static_cast<double>(failed) / static_cast<double>(all); }
  };
  Share share_of(const Known& one, TimePoint now) const;
  bool others_answer(const Known& one, TimePoint now) const;

  ErrorSettings settings_;
  std::map<uint64_t, Known> known_;  ///< key: process
};

}  // namespace kintsugi::gray
