/// What looks at the reports of all processes once a second and says what is wrong.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/proto/sight.pb.h"
#include "monitoring/behaviour/detector.h"
#include "monitoring/model/snapshot.h"

namespace kintsugi::monitoring {

/// Reports in, verdicts out. A detector keeps what it has to remember between snapshots, bounded. Not thread-safe.
class Detector {
 public:
  virtual ~Detector() = default;

  /// For people and logs: "progress".
  virtual std::string_view name() const = 0;
  /// What the detectors before it found in this round. Called before examine().
  virtual void hear(const std::vector<proto::Verdict>& /*found*/, TimePoint /*now*/) {}
  /// What is wrong now, the worst first, without ids and wall times. `snapshot.taken` grows from call to call.
  virtual std::vector<proto::Verdict> examine(const model::Snapshot& snapshot) = 0;
  /// Returns the verdicts that it withheld in this round because a lack of processor explains them.
  virtual std::vector<proto::Verdict> excused() const { return {}; }

  /// The process has to report everything that is open in it with its next report.
  virtual bool wants_everything(uint64_t /*process*/) const { return false; }
  /// Calls, by their spans, of which the process has to say whether it has served them.
  virtual std::vector<uint64_t> wants_to_know_of(uint64_t /*process*/) const { return {}; }
  /// Sites whose finished executions a process has to report.
  virtual std::vector<std::string> wants_samples_of(uint64_t /*process*/) const { return {}; }
  /// A report of a process was taken in: for detectors of samples, which the view does not keep. `view` knows what the
  /// report's ids mean.
  virtual void report_came(const model::ProcessView& /*view*/, const proto::SightReport& /*report*/,
                           TimePoint /*arrived*/) {}
  /// What it has learnt of the times of regions by their inputs.
  virtual std::vector<behaviour::Detector::Learnt> learnt() const { return {}; }
};

}  // namespace kintsugi::monitoring
