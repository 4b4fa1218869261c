/// Processes that could not hear anybody for a while, whatever their links are like: they were silent, code held their
/// event loop, they had no processor, or they stood still as a whole. What was asked of them, or by them, in that while
/// says nothing of a link. Bounded. Not thread-safe.
#pragma once

#include <map>

#include "monitoring/progress/evidence/open_tasks.h"
#include "monitoring/progress/evidence/processor_shares.h"

namespace kintsugi::progress {

class Unwell {
 public:
  /// A process stood still as a whole that did so for this share of the time between two reports.
  static constexpr double kMostOfTheTime = 0.5;

  /// `shares` have seen the snapshot.
  void observe(const OpenTasks& tasks, const ProcessorShares& shares);
  /// It was so at some time since then.
  bool since(uint64_t process, TimePoint when) const;

 private:
  std::map<uint64_t, TimePoint> last_;  ///< key: process; value: when it last was
};

}  // namespace kintsugi::progress
