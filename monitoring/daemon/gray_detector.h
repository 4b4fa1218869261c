/// Gray failures: processes, disks and links that work most of the time, or for most purposes.
#pragma once

#include <set>

#include "monitoring/daemon/detector.h"
#include "monitoring/gray/clocks.h"
#include "monitoring/gray/errors.h"
#include "monitoring/gray/losses.h"
#include "monitoring/gray/pauses.h"
#include "monitoring/gray/stalls.h"
#include "monitoring/gray/unreached.h"
#include "monitoring/progress/evidence/processor_shares.h"

namespace kintsugi::monitoring {

class GrayDetector final : public Detector {
 public:
  /// A process that is younger may answer with errors: it finds its disks and the others.
  static constexpr Duration kStarts = std::chrono::minutes(1);
  /// A process that has not reported for so long is another detector's matter.
  static constexpr Duration kSilence = std::chrono::seconds(5);

  std::string_view name() const override { return "gray"; }
  void hear(const std::vector<proto::Verdict>& found, TimePoint now) override;
  /// Applications, among them commands that end: whom they gave up on.
  void report_came(const model::ProcessView& view, const proto::SightReport& report,
                   TimePoint arrived) override;
  std::vector<proto::Verdict> examine(const model::Snapshot& snapshot) override;
  std::vector<proto::Verdict> excused() const override { return excused_; }

 private:
  void look(const model::Snapshot& snapshot);
  void look_at_links(const model::Snapshot& snapshot);
  void look_at_answers(const model::Snapshot& snapshot);
  void look_at_clocks(const model::Snapshot& snapshot);
  std::vector<proto::Verdict> unreached(const model::Snapshot& snapshot,
                                        const std::vector<proto::Verdict>& pausing) const;

  progress::ProcessorShares shares_;
  gray::PauseWatch pauses_;
  gray::StallWatch stalls_;
  gray::UnreachedWatch unreached_;
  gray::LossWatch losses_;
  gray::ErrorWatch errors_;
  gray::ClockWatch clocks_;
  /// Processes that hang or have no disk, as other detectors say in this round.
  std::set<uint64_t> explained_;
  std::vector<proto::Verdict> excused_;  ///< what a lack of processor explained in the latest round
};

}  // namespace kintsugi::monitoring
