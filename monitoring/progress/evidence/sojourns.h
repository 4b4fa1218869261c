/// How long tasks usually stay in a state: what makes a wait a hang, and how surprising its age is.
#pragma once

#include <array>
#include <cstdint>
#include <unordered_map>

#include "monitoring/model/worker_model.h"

namespace kintsugi::progress {

using model::state_key;

class Sojourns {
 public:
  static constexpr size_t kOctaves = 32;
  static constexpr size_t kMaxStates = 65'536;
  /// Bounds of the stillness that makes a wait a hang.
  static constexpr Duration kLeastStillness = 1s, kMostStillness = 6s;
  /// The same for a state with fewer than kLeastSamples sojourns.
  static constexpr Duration kUnknownStillness = 5s;
  static constexpr uint64_t kLeastSamples = 30;
  /// How many standard deviations of log2 above the mean a sojourn is no usual one.
  static constexpr double kDeviations = 5;

  /// Counts all transitions that the process has made since its start. Call it once for each process.
  void add(const model::ProcessView& view);
  /// Counts `times` sojourns of `length` each.
  void add(uint64_t key, Duration length, uint64_t times = 1);

  /// After how long in this state a task counts as one without progress: 2^(mu + kDeviations * sigma), within the
  /// bounds.
  Duration limit(uint64_t key) const;

  struct Rarity {
    uint64_t sojourns = 0;   ///< n
    uint64_t as_long = 0;    ///< how many of them lasted as long as `age`, or may have: k
    double probability = 0;  ///< 1 - (k+1)/(n+2): probability that this sojourn is unusual
    double surprise = 0;     ///< -log2((k+1)/(n+2))
  };
  Rarity rarity(uint64_t key, Duration age) const;

 private:
  struct Total {
    uint64_t count = 0;
    double sum = 0, sum_sq = 0;  ///< sums of log2(ns) and of its square
    std::array<uint64_t, kOctaves> octaves{};
  };
  Total* total_of(uint64_t key);

  std::unordered_map<uint64_t, Total> totals_;
};

}  // namespace kintsugi::progress
