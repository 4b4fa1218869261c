/// Detectors that compare: devices with their peers, workers with theirs and with what they did before, executions with what their inputs let
/// expect. They bring reports into the forms that monitoring/similarity and monitoring/behaviour work on.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "monitoring/behaviour/detector.h"
#include "monitoring/daemon/detector.h"
#include "monitoring/model/worker_model.h"
#include "monitoring/similarity/fail_slow.h"
#include "monitoring/similarity/watch.h"

namespace kintsugi::monitoring {

/// Disks and links that became slower than their peers.
class FailSlowDetector final : public Detector {
 public:
  std::string_view name() const override { return "fail-slow"; }
  std::vector<proto::Verdict> examine(const model::Snapshot& snapshot) override;

 private:
  similarity::FailSlow fail_slow_;
  std::map<uint64_t, TimePoint> taken_;  ///< by process: its last report that was looked at
};

/// Workers that do otherwise than the others of their role, and than they did before (AutomaDeD).
class SimilarityDetector final : public Detector {
 public:
  static constexpr Duration kWindow =
      std::chrono::seconds(20);  ///< processes tell of transitions every ten seconds

  SimilarityDetector();

  std::string_view name() const override { return "similarity"; }
  std::vector<proto::Verdict> examine(const model::Snapshot& snapshot) override;

 private:
  using Worker = std::pair<uint64_t, std::string>;  ///< process and role

  std::vector<similarity::Worker> windows(const model::Snapshot& snapshot);
  void learn_states(const model::ProcessView& view);

  similarity::Watch watch_;
  std::map<uint64_t, similarity::StateInfo> states_;  ///< by state_key; bounded
  std::map<Worker, model::WorkerModel> totals_;       ///< at the end of the last window
  TimePoint window_began_ = TimePoint::min();
};

/// Executions unlike what their inputs say (Sculptor, E-Analyzer, Guardian).
class BehaviourDetector final : public Detector {
 public:
  static constexpr Duration kRefit = std::chrono::seconds(60);

  std::string_view name() const override { return "behaviour"; }
  std::vector<proto::Verdict> examine(const model::Snapshot& snapshot) override;
  std::vector<std::string> wants_samples_of(uint64_t process) const override;
  void report_came(const model::ProcessView& view, const proto::SightReport& report,
                   TimePoint arrived) override;

 private:
  behaviour::Detector detector_;
  TimePoint fitted_ = TimePoint::min();
};

}  // namespace kintsugi::monitoring
