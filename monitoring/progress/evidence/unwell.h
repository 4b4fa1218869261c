/// Processes that could not receive for a while, whatever their links are like: they were silent, code held their
/// event loop, they had no processor, or they were stopped as a whole. Requests to them, or from them, during that time
/// say nothing about a link. Bounded. Not thread-safe.
#pragma once

#include <map>

#include "monitoring/progress/evidence/open_tasks.h"
#include "monitoring/progress/evidence/processor_shares.h"

namespace kintsugi::progress {

class Unwell {
 public:
  /// A process counts as stopped when it did nothing for this share of the time between two reports.
  static constexpr double kMostOfTheTime = 0.5;

  /// `shares` have seen the snapshot.
  void observe(const OpenTasks& tasks, const ProcessorShares& shares);
  /// It was so at some time since then.
  bool since(uint64_t process, TimePoint when) const;

 private:
  std::map<uint64_t, TimePoint> last_;  ///< key: process; value: when it last was
};

}  // namespace kintsugi::progress
