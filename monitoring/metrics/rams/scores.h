/// The scores of our form of RAMS, of one channel each. Pure; Scorer keeps the recent rows.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "monitoring/metrics/rams/channels.h"

namespace kintsugi::rams {

enum class Score : uint8_t {
  kSerial,  ///< residuals of the window follow one another: sign of their autocorrelation times the root of LM
  kFrozenLine,  ///< distance of the newest samples from the line of the healthy past, in deviations
  kBreak,       ///< the halves of the window follow two lines: Chow's F
};

/// What is scored. `window` is 0 for kFrozenLine.
struct ScoreKey {
  std::string channel;
  Score score = Score::kSerial;
  size_t window = 0;

  auto operator<=>(const ScoreKey&) const = default;
};

struct ScoreOptions {
  std::vector<size_t> windows{60, 120};
  size_t past = 240;        ///< samples without an alarm that are remembered; the oldest half gives the line
  size_t fewest_past = 60;  ///< no line below so many
  size_t newest = 20;       ///< samples that are set against the line
  /// A load with less relative deviation is not judged.
  double steady_load = 0.05;
};

/// kMovingLoad, kMovingResiduals, kKnownValues, kSamples.
Answer<double> serial_score(const Eigen::Ref<const Eigen::VectorXd>& app,
                            const Eigen::Ref<const Eigen::VectorXd>& os, double steady_load);

/// A line that does not move any more.
struct FrozenLine {
  double intercept = 0, slope = 0;
  double sigma = 0;  ///< positive

  double distance(double app, double os) const { return (os - intercept - slope * app) / sigma; }
};
Answer<FrozenLine> freeze_line(const Eigen::Ref<const Eigen::VectorXd>& app,
                               const Eigen::Ref<const Eigen::VectorXd>& os);
/// The mean absolute distance. kKnownValues: there is a NaN. REQUIRES: app and os are of one length, and not empty.
Answer<double> frozen_line_score(const FrozenLine& line, const Eigen::Ref<const Eigen::VectorXd>& app,
                                 const Eigen::Ref<const Eigen::VectorXd>& os);

/// The recent rows of one channel, and its healthy past.
class Scorer {
 public:
  Scorer(std::string channel, const ScoreOptions& options)
      : channel_(std::move(channel)), options_(options) {}

  /// A row. `healthy`: no alarm stands, so it belongs to the past that later rows are compared with.
  void add(double app, double os, bool healthy);
  /// Another life of the process begins: what comes is not in one window with what was. The healthy past stays.
  void begin_segment() { app_.clear(), os_.clear(); }
  void forget_past() { past_.clear(); }

  std::vector<ScoreKey> keys() const;
  /// The scores, in the order of keys().
  std::vector<Answer<double>> scores() const;

  Answer<FrozenLine> line() const;
  /// The score of the newest rows against a line. kSamples: the segment is too short.
  Answer<double> against(const FrozenLine& line) const;

 private:
  struct Point {
    double app, os;
  };
  Answer<double> of_window(size_t window, Score score) const;

  const std::string channel_;
  const ScoreOptions options_;
  std::vector<double> app_, os_;  ///< newest rows of the segment, oldest first
  std::deque<Point> past_;        ///< oldest first
};

}  // namespace kintsugi::rams
