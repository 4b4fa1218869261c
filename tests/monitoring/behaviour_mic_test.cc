#include <gtest/gtest.h>

#include "common/base/draws.h"
#include "monitoring/behaviour/features.h"
#include "monitoring/behaviour/mic.h"

namespace kintsugi::behaviour {
namespace {

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
