/// Executions of regions against what their inputs say, of all servers: Guardian in a live cluster. Its alarms are
/// unsure and masked: nobody is held up by an execution that ends, however long it took.
#pragma once

#include <map>

#include "monitoring/behaviour/detector.h"
#include "monitoring/daemon/detector.h"
#include "monitoring/progress/evidence/processor_shares.h"

namespace kintsugi::monitoring {

class BehaviourDetector final : public Detector {
 public:
  /// A process is asked for its latest executions so often: they are a sample, and a report with them is some
  /// kilobytes larger.
  static constexpr Duration kAsk = std::chrono::seconds(10);
  /// Between two models that are fitted, since that takes the monitor's only thread for a while.
  static constexpr Duration kFit = std::chrono::seconds(5);
  static constexpr size_t kMostSites = 64;
  static constexpr size_t kMostProcesses = 1024;

  BehaviourDetector();
  std::string_view name() const override { return "behaviour"; }
  std::vector<proto::Verdict> examine(const model::Snapshot& snapshot) override;
  std::vector<std::string> wants_samples_of(uint64_t process) const override;
  void report_came(const model::ProcessView& view, const proto::SightReport& report,
                   TimePoint arrived) override;

  std::vector<behaviour::Detector::Learnt> learnt() const override { return detector_.learnt(); }
  const behaviour::Detector& detector() const { return detector_; }

 private:
  struct Asked {
    TimePoint next{};
    std::vector<std::string> sites;  ///< sites that the answer to the process's report asks for
    TimePoint seen{};
  };

  behaviour::Detector detector_;
  progress::ProcessorShares shares_;
  std::map<uint64_t, Asked> asked_;  ///< key: process id
  TimePoint fitted_{};
};

}  // namespace kintsugi::monitoring
