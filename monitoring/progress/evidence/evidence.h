/// What the snapshots until now say together, and no single one does. Bounded. Not thread-safe.
#pragma once

#include "monitoring/progress/evidence/ended_waits.h"
#include "monitoring/progress/evidence/movement.h"
#include "monitoring/progress/evidence/open_tasks.h"
#include "monitoring/progress/evidence/processor_shares.h"
#include "monitoring/progress/evidence/sojourns.h"
#include "monitoring/progress/evidence/unwell.h"

namespace kintsugi::progress {

class Evidence {
 public:
  /// Takes in the next snapshot, and returns its open tasks. The snapshot outlives them.
  OpenTasks observe(const model::Snapshot& snapshot);

  const Sojourns& sojourns() const { return sojourns_; }
  const Movement& movement() const { return movement_; }
  const EndedWaits& ended() const { return ended_; }
  const ProcessorShares& shares() const { return shares_; }
  const Unwell& unwell() const { return unwell_; }

 private:
  void count_sojourns(const model::Snapshot& snapshot);

  Sojourns sojourns_;
  TimePoint sojourns_made_{};
  size_t sojourns_of_ = 0;  ///< number of processes whose sojourns are included
  Movement movement_;
  EndedWaits ended_;
  ProcessorShares shares_;
  Unwell unwell_;
};

}  // namespace kintsugi::progress
