/// How much a total of a process has grown lately, and how often.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "common/runtime/clock.h"

namespace kintsugi::gray {

/// Bounded: a sample a second over the window. Not thread-safe.
class RecentGrowth {
 public:
  static constexpr Duration kWindow = std::chrono::seconds(60);
  /// Growth within this time of other growth belongs to it.
  static constexpr Duration kApart = std::chrono::seconds(3);

  /// `at` grows from call to call. A total that falls is that of a new process.
  void add(TimePoint at, uint64_t total) {
    if (!samples_.empty() && total < samples_.back().total) samples_.clear();
    if (!samples_.empty() && at <= samples_.back().at) return;
    samples_.push_back({at, total});
    while (samples_.back().at - samples_.front().at > kWindow)
      samples_.pop_front();
  }

  /// Since `from`, at most since the window began.
  uint64_t grown(TimePoint from) const {
    uint64_t first = samples_.empty() ? 0 : samples_.back().total;
    for (auto sample = samples_.rbegin(); sample != samples_.rend() && sample->at >= from; ++sample)
      first = sample->total;
    return samples_.empty() ? 0 : samples_.back().total - first;
  }
  /// The time for which grown() counts.
  Duration known(TimePoint from) const {
    for (const Sample& sample : samples_)
      if (sample.at >= from) return samples_.back().at - sample.at;
    return {};
  }
  /// When it grew within the window, in order.
  std::vector<TimePoint> moments() const {
    std::vector<TimePoint> moments;
    for (size_t i = 1; i < samples_.size(); ++i)
      if (samples_[i].total != samples_[i - 1].total) moments.push_back(samples_[i].at);
    return moments;
  }
  /// How often it grew within the window, kApart or more apart.
  size_t times() const {
    size_t count = 0;
    TimePoint last{};
    for (const TimePoint at : moments()) {
      if (count == 0 || at - last >= kApart) {
        ++count;
        last = at;
      }
    }
    return count;
  }
  TimePoint latest() const { return samples_.empty() ? TimePoint{} : samples_.back().at; }

 private:
  struct Sample {
    TimePoint at;
    uint64_t total;
  };
  std::deque<Sample> samples_;
};

}  // namespace kintsugi::gray
