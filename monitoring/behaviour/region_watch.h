/// Notices while executions come in that a range of an input follows another law than the model says. Not thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "monitoring/behaviour/error_analysis.h"
#include "monitoring/behaviour/samples.h"

namespace kintsugi::behaviour {

/// Successive executions in one region of an input that are all off to the same side make it a candidate, and when
/// enough have come, it gets an estimator of its own.
class RegionWatch {
 public:
  static constexpr size_t kSuccessive = 10;
  static constexpr size_t kEnough = 30;
  static constexpr size_t kMostKept = 120;  ///< executions of one candidate; beyond this it begins anew
  static constexpr double kDeviations = 3;

  struct Found {
    size_t input;
    double low, high;  ///< range of the input among the deviating executions
    Samples samples;
  };

  /// `ranges` of the inputs that the model learnt from.
  explicit RegionWatch(std::vector<Range> ranges);
  /// `residual` of the execution in standard deviations of the model's. `server` is any number for who executed: what
  /// a single one does is its own affair and no law, so a region needs two of them, each with a quarter of the
  /// executions. Returns a region when it has become ripe; its count begins anew then.
  std::optional<Found> add(std::span<const double> inputs, double observed, double residual, uint64_t server);
  size_t candidates() const;

 private:
  static constexpr size_t kRegions = 10;  ///< eight regions within the range, and one on either side
  struct Region {
    int side = 0;
    size_t run = 0;
    std::vector<std::vector<double>> inputs;
    std::vector<double> observed;
    std::map<uint64_t, size_t> servers;
  };
  size_t region_of(size_t input, double value) const;

  std::vector<Range> ranges_;
  std::vector<std::array<Region, kRegions>> regions_;
};

}  // namespace kintsugi::behaviour
