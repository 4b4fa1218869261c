#include <gtest/gtest.h>

#include "common/base/draws.h"
#include "common/base/statistics.h"
#include "monitoring/behaviour/features.h"
#include "monitoring/behaviour/mic.h"

namespace kintsugi::behaviour {
namespace {

/// Mutual information of the points of a grid in bits, over log2 of the smaller side: in [0, 1]. `counts` by column,
/// then by row.
/// REQUIRES: at least two columns and two rows, columns of equal length.
double grid_score(const std::vector<std::vector<uint32_t>>& counts) {
  const size_t columns = counts.size(), rows = counts.front().size();
  std::vector<double> row_sum(rows, 0), column_sum(columns, 0);
  double n = 0;
  for (size_t c = 0; c < columns; ++c)
    for (size_t r = 0; r < rows; ++r) {
      row_sum[r] += counts[c][r];
      column_sum[c] += counts[c][r];
      n += counts[c][r];
    }
  double information = 0;
  for (size_t c = 0; c < columns; ++c)
    for (size_t r = 0; r < rows; ++r)
      if (counts[c][r] > 0)
        information += counts[c][r] / n * std::log2(counts[c][r] * n / (row_sum[r] * column_sum[c]));
  return std::max(0.0, information) / std::log2(static_cast<double>(std::min(columns, rows)));
}

/// The score of the best grid of two rows with five points each and two columns. REQUIRES: ten points, all different.
double best_of_two_by_two(const std::vector<double>& x, const std::vector<double>& y) {
  std::vector<double> sorted = y;
  std::ranges::sort(sorted);
  double best = 0;
  for (const double cut : x) {
    std::vector<std::vector<uint32_t>> counts(2, std::vector<uint32_t>(2));
    for (size_t i = 0; i < x.size(); ++i)
      ++counts[x[i] < cut][y[i] < sorted[5]];
    best = std::max(best, grid_score(counts));
  }
  return best;
}

TEST(Mic, IsTheScoreOfTheBestGrid) {
  Draws draws(3);
  for (int round = 0; round < 50; ++round) {
    std::vector<double> x(10), y(10);
    for (size_t i = 0; i < x.size(); ++i) {
      x[i] = draws.uniform();
      y[i] = draws.uniform();
    }
    EXPECT_NEAR(mic(x, y), std::max(best_of_two_by_two(x, y), best_of_two_by_two(y, x)), 1e-9);
  }
}

TEST(Mic, ScoresOfGridsAreTheWorkedOnes) {
  EXPECT_NEAR(grid_score({{4, 0}, {0, 4}}), 1, 1e-9);
  EXPECT_NEAR(grid_score({{4, 1}, {0, 3}}), 0.5488, 5e-5);
  EXPECT_NEAR(grid_score({{3, 1}, {1, 3}}), 0.1887, 5e-5);
  EXPECT_NEAR(grid_score({{2, 2}, {2, 2}}), 0, 1e-9);
  EXPECT_NEAR(grid_score({{3, 0}, {0, 3}, {3, 0}}), 0.9183, 5e-5);
}

TEST(Mic, OneOfEveryFunctionOfANumber) {
  std::vector<double> x, square, cubic;
  for (int i = 1; i <= 50; ++i) {
    x.push_back(i);
    square.push_back(i * i);
    cubic.push_back(2.0 / 3 * i * i * i + 2 * i * i);
  }
  EXPECT_NEAR(mic(x, x), 1, 1e-9);
  EXPECT_NEAR(mic(x, square), 1, 1e-9);
  EXPECT_NEAR(mic(x, cubic), 1, 1e-9);
}

TEST(Mic, SeesRelationsThatAreNoFunctionsAndNothingInNoise) {
  Draws draws(3);
  std::vector<double> x, wave, other;
  for (int i = 0; i < 256; ++i) {
    x.push_back(draws.uniform());
    wave.push_back(std::cos(x.back() * 12));
    other.push_back(draws.uniform());
  }
  EXPECT_GT(mic(x, wave), 0.8);
  EXPECT_LT(mic(x, other), mic_noise_threshold(256));
  EXPECT_NEAR(mic(x, std::vector<double>(256, 7)), 0, 1e-9);
}

/// What mic() of independent numbers stays below in 99 of 100 random permutations.
double measure_mic_noise(size_t points, size_t permutations, uint64_t seed) {
  Draws draws(seed);
  std::vector<double> x(points), y(points), scores;
  for (size_t i = 0; i < points; ++i)
    x[i] = y[i] = static_cast<double>(i);
  for (size_t p = 0; p < permutations; ++p) {
    draws.shuffle(y);
    scores.push_back(mic(x, y));
  }
  return quantile_of(scores, 0.99);
}

TEST(Mic, TheTableOfNoiseIsWhatPermutationsGive) {
  for (size_t points : {24, 48, 96})
    EXPECT_NEAR(measure_mic_noise(points, 200, 7), mic_noise_threshold(points), 0.05) << points;
  EXPECT_GE(mic_noise_threshold(10'000), 0.2);
}

TEST(Features, DuplicatesNoiseAndWhatCannotBePredictedAreTold) {
  Draws draws(1);
  std::vector<std::vector<double>> in(3), out(2);
  for (int i = 0; i < 400; ++i) {
    const double n = 10 + std::floor(draws.uniform(0, 500));
    in[0].push_back(n);
    in[1].push_back(2.0 / 3 * n * n * n + 2 * n * n);  // LINPACK's operations
    in[2].push_back(draws.uniform());
    out[0].push_back(n * n * std::exp(0.02 * draws.normal()));
    out[1].push_back(draws.uniform());
  }
  const Features features = select_features({"n", "ops", "bitrate"}, in, out);
  EXPECT_EQ(features.kept, std::vector<size_t>{0}) << "the one whose name comes first";
  ASSERT_EQ(features.duplicates.size(), 1u);
  EXPECT_EQ(features.duplicates[0].dropped, 1u);
  EXPECT_GE(features.duplicates[0].score, 0.95);
  EXPECT_EQ(features.noise, std::vector<size_t>{2});
  EXPECT_EQ(features.needs_more_inputs, std::vector<size_t>{1});
}

}  // namespace
}  // namespace kintsugi::behaviour
