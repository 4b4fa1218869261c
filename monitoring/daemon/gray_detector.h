/// Gray failures: processes, disks and links that work most of the time, or for most purposes.
#pragma once

#include "monitoring/daemon/detector.h"
#include "monitoring/gray/clocks.h"
#include "monitoring/gray/errors.h"
#include "monitoring/gray/pauses.h"
#include "monitoring/gray/stalls.h"
#include "monitoring/gray/unreached.h"
#include "monitoring/progress/evidence/processor_shares.h"

namespace kintsugi::monitoring {

class GrayDetector final : public Detector {
 public:
  /// A process that has not reported for so long is another detector's matter.
  static constexpr Duration kSilence = std::chrono::seconds(5);

  std::string_view name() const override { return "gray"; }
  std::vector<proto::Verdict> examine(const model::Snapshot& snapshot) override;

 private:
  void look(const model::Snapshot& snapshot);
  std::vector<proto::Verdict> unreached(const model::Snapshot& snapshot,
                                        const std::vector<proto::Verdict>& pausing) const;

  progress::ProcessorShares shares_;
  gray::PauseWatch pauses_;
  gray::StallWatch stalls_;
  gray::UnreachedWatch unreached_;
  gray::ErrorWatch errors_;
  gray::ClockWatch clocks_;
};

}  // namespace kintsugi::monitoring
