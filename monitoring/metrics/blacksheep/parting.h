/// Where the log of a process and the machine say different things: our detector on top of a profile. Deterministic.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "monitoring/metrics/blacksheep/profile.h"
#include "monitoring/metrics/blacksheep/resource.h"

namespace kintsugi::blacksheep {

enum class Direction : uint8_t {
  kStateAlone,   ///< the log tells of work that the machine does not do: a hang, a stopped process
  kMetricAlone,  ///< the machine does work that the log does not tell of: a hog, a leak
};

/// What is counted: changes of one state that no metric of its pairs goes with, or the reverse.
struct Culprit {
  Direction direction = Direction::kStateAlone;
  std::string name;  ///< name of the state or of the metric

  auto operator<=>(const Culprit&) const = default;
};

struct PartingOptions {
  std::chrono::nanoseconds window = std::chrono::seconds(30);
  double healthy_quantile = 0.999;
};

/// The counts of healthy runs, by culprit.
struct HealthyCounts {
  PartingOptions options;
  std::map<Culprit, double> highest;  ///< the quantile of the weighted count in a window
  size_t runs = 0;
};

struct Parting {
  int64_t begin_ns = 0,
          end_ns = 0;  ///< the window in which the count was highest; the lines of the log there are evidence
  Culprit culprit;
  Resource resource = Resource::kProcessor;  ///< resource of the metric, or of the best pair of the state
  std::string state;                         ///< the phase: of the culprit, or of the metric's best pair
  double count = 0;                          ///< weighted by the scores of the pairs
  double healthy_count = 0;                  ///< the healthy count that it exceeds
};

/// kHealthyReference: no run; kStateChanges: the profile has no pair.
Answer<HealthyCounts> count_healthy(const Profile& profile, std::span<const Run> runs,
                                    const PartingOptions& options = {});

/// At most one for each culprit: where its count exceeds the healthy one by most. The greatest excess comes first.
std::vector<Parting> partings(const Profile& profile, const HealthyCounts& healthy, const Run& run);

}  // namespace kintsugi::blacksheep
