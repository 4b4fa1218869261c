/// Our form of RAMS: says, row by row, whether what a process has the system do still follows from its own work as it
/// did while it was healthy. Deterministic, and the same online and offline.
///
/// An alarm latches: once a fault fills the window, its residuals look healthy again. It ends when the newest samples
/// are back on the line of the time before the alarm.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "monitoring/metrics/rams/calibration.h"

namespace kintsugi::rams {

enum class State : uint8_t {
  kNoAnswer,  ///< Verdict::lack says why
  kHealthy,
  kSick,
  kBlocked,  ///< regions are open and the process does not run at all: a matter of the detector of hangs
};

struct Alarm {
  NodeScore score;  ///< the score that raised the alarm
  double threshold = 0;
  int64_t since_ns = 0;  ///< wall time of its first sample
};

struct Verdict {
  int64_t t_ns = 0;
  State state = State::kNoAnswer;
  std::optional<NotEnough> lack;   ///< what was lacking, for kNoAnswer
  std::optional<NodeScore> score;  ///< the most remarkable one now
  std::optional<Alarm> alarm;      ///< the alarm, for kSick
};

struct DetectorOptions {
  size_t healthy_samples = 60;  ///< samples in a row, on the line of before the alarm, that end it
  double healthy_share = 0.99;  ///< quantile of healthy distances up to which a sample is on the line
  std::chrono::nanoseconds blocked_for = std::chrono::seconds(10);
  /// Processors below which a process does not run; such samples are not scored.
  double blocked_processors = 0.002;
};

struct Sample {
  int64_t t_ns = 0;
  double app = 0;
  Eigen::VectorXd os;  ///< a value for each channel
  double processors = 0;
  double open = 0;
};

class Detector {
 public:
  /// REQUIRES: `calibration` outlives the detector. `period`: between two samples.
  Detector(const std::vector<std::string>& channels, std::chrono::nanoseconds period,
           const Calibration& calibration, const DetectorOptions& options = {});

  /// The process starts anew. With the same build an alarm stands on; another one has no healthy past yet.
  void begin_segment(const std::string& build_id);
  /// A verdict comes with every Calibration::options.stride samples. REQUIRES: begin_segment() was called.
  std::optional<Verdict> add(const Sample& sample);

 private:
  struct Latch {
    Alarm alarm;
    size_t channel = 0;              ///< channel that the line belongs to
    std::optional<FrozenLine> line;  ///< none: only a new build ends the alarm
    double limit = 0;                ///< farthest healthy score against the line
    size_t healthy_samples = 0;
  };
  void raise(const NodeScore& score, int64_t t_ns);
  void see_whether_healed();
  bool blocked() const { return still_samples_ >= blocked_samples_; }
  Verdict verdict(int64_t t_ns);

  const Calibration& calibration_;
  const DetectorOptions options_;
  const size_t blocked_samples_;
  Node node_;
  std::string build_id_;
  size_t samples_ = 0;        ///< number of samples of this segment
  size_t still_samples_ = 0;  ///< newest samples in which it had work and did not run
  std::optional<Latch> latch_;
};

/// All verdicts on a trace.
std::vector<Verdict> judge(const Inputs& inputs, const Calibration& calibration,
                           const DetectorOptions& options = {});

}  // namespace kintsugi::rams
