// Models of what approximation does: polynomials, the features that they use, and classes of inputs.
#include <cmath>
#include <numbers>

#include <gtest/gtest.h>

#include "common/base/draws.h"
#include "monitoring/behaviour/mic.h"
#include "tests/benchmarks/opprox/association.h"
#include "tests/benchmarks/opprox/decision_tree.h"
#include "tests/benchmarks/opprox/polynomial.h"

namespace kintsugi::opprox {
namespace {

struct Data {
  std::vector<Row> rows;
  std::vector<double> targets;
};

template <class Function>
Data data_of(size_t rows, size_t features, Function function) {
  Draws draws(7);
  Data data;
  for (size_t i = 0; i < rows; ++i) {
    Row& row = data.rows.emplace_back();
    for (size_t f = 0; f < features; ++f)
      row.push_back(draws.uniform(-3, 5));
    data.targets.push_back(function(row));
  }
  return data;
}

TEST(Polynomial, HasTheTermsThatItsDegreeAllows) {
  EXPECT_EQ(Polynomial::terms(3, 0), 1u);
  EXPECT_EQ(Polynomial::terms(3, 2), 10u);
  EXPECT_EQ(Polynomial::terms(5, 3), 56u);
}

TEST(Model, FindsThePolynomialBehindItsRows) {
  const auto cubic = [](const Row& x) { return 1 + 2 * x[0] - x[0] * x[1] + 0.5 * x[1] * x[1] * x[1]; };
  const Data data = data_of(80, 2, cubic);
  const Model model = Model::fit(data.rows, data.targets, {.enough = 0.999});
  EXPECT_EQ(model.degree(), 3u);
  EXPECT_GT(model.determination(), 0.999);
  EXPECT_NEAR(model.at(Row{1.5, -2}), cubic({1.5, -2}), 0.01);
}

TEST(Model, StopsAtTheDegreeThatIsGoodEnough) {
  const Data data = data_of(80, 1, [](const Row& x) { return 10 * x[0] + 0.01 * x[0] * x[0]; });
  EXPECT_EQ(Model::fit(data.rows, data.targets).degree(), 1u);
}

TEST(Model, CutsTheRangeOfAFeatureWhereNoPolynomialFits) {
  const Data data = data_of(120, 2, [](const Row& x) { return x[1] < 1 ? 100 + x[0] : -100 - 3 * x[0]; });
  const Model whole =
      Model::fit(data.rows, data.targets, {.enough = 0.99, .most_degree = 3, .most_parts = 1});
  const Model cut = Model::fit(data.rows, data.targets, {.enough = 0.99, .most_degree = 3});
  EXPECT_GT(cut.parts(), 1u);
  EXPECT_GT(cut.determination(), whole.determination());
}

TEST(Model, TellsHowFarItWasOffWhereItWasNotFitted) {
  Draws draws(3);
  const Data data = data_of(200, 1, [&](const Row& x) { return x[0] + (draws.below(50) == 0 ? 4.0 : 0.0); });
  const Model model = Model::fit(data.rows, data.targets);
  EXPECT_GT(model.error_of_share(1), 3);
  EXPECT_LT(model.error_of_share(0.9), 0.5);
}

TEST(Model, RowsOfAGroupDoNotVouchForOneAnother) {
  // Each group has a number of its own that no feature tells: only rows of the same group could.
  Draws draws(5);
  Data data;
  std::vector<size_t> groups;
  for (size_t group = 0; group < 30; ++group) {
    const double own = draws.normal(), at = draws.uniform();
    for (int i = 0; i < 5; ++i) {
      data.rows.push_back({at + 1e-6 * i});
      data.targets.push_back(own);
      groups.push_back(group);
    }
  }
  const FitSettings alone{.most_degree = 2, .most_parts = 3};
  FitSettings grouped = alone;
  grouped.groups = groups;
  EXPECT_LT(Model::fit(data.rows, data.targets, grouped).determination(), 0.3);
}

TEST(Model, DoesNotRunAwayBeyondWhatItHasSeen) {
  const Data data = data_of(60, 1, [](const Row& x) { return x[0] * x[0]; });
  EXPECT_LT(Model::fit(data.rows, data.targets).at(Row{1000}), 30);
}

/// Numbers that look random and are the same in every program: twelve steps of a linear congruential generator each.
std::vector<double> noise(size_t count) {
  uint64_t state = 1;
  std::vector<double> numbers(count, -6.0);
  for (double& number : numbers) {
    for (int i = 0; i < 12; ++i) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      number += static_cast<double>(state >> 11) * 0x1.0p-53;
    }
  }
  return numbers;
}

struct Shapes {
  explicit Shapes(size_t count) : error(noise(count)) {
    for (size_t i = 0; i < count; ++i) {
      x.push_back(static_cast<double>(i) / static_cast<double>(count - 1));
      parabola.push_back(std::pow(x.back() - 0.5, 2));
      wave.push_back(std::sin(6 * std::numbers::pi * x.back()));
      line_and_error.push_back(x.back() + 0.2 * error[i]);
    }
  }
  std::vector<double> x, parabola, wave, error, line_and_error;
};

TEST(Association, HasTheValuesOfMinerva) {
  const Shapes few(32), many(200);
  EXPECT_NEAR(few.error[0], 0.198842833, 1e-9);
  EXPECT_NEAR(behaviour::mic(few.x, few.x), 1, 0.01);
  EXPECT_NEAR(behaviour::mic(few.x, few.parabola), 1, 0.01);
  EXPECT_NEAR(behaviour::mic(few.x, few.wave), 0.375, 0.01);
  EXPECT_NEAR(behaviour::mic(few.x, few.error), 0.232276, 0.01);
  EXPECT_NEAR(behaviour::mic(many.x, many.x), 1, 0.01);
  EXPECT_NEAR(behaviour::mic(many.x, many.parabola), 1, 0.01);
  EXPECT_NEAR(behaviour::mic(many.x, many.wave), 1, 0.01);
  EXPECT_NEAR(behaviour::mic(many.x, many.error), 0.256932, 0.01);
  EXPECT_NEAR(behaviour::mic(many.x, many.line_and_error), 0.696701, 0.01);
}

TEST(Association, FeaturesWithoutOneAreLeftOut) {
  Draws draws(11);
  std::vector<std::vector<double>> columns(3);
  std::vector<double> target;
  for (int i = 0; i < 120; ++i) {
    for (auto& column : columns)
      column.push_back(draws.uniform());
    target.push_back(std::pow(columns[1].back() - 0.5, 2) + 0.01 * draws.uniform());
  }
  EXPECT_EQ(associated(columns, target, behaviour::mic), std::vector<size_t>{1});
}

TEST(DecisionTree, TellsClassesApart) {
  std::vector<std::vector<double>> rows;
  std::vector<size_t> classes;
  Draws draws(2);
  const auto class_of = [](double a, double b) -> size_t { return a > 0.6 ? 2 : b > 0.3 ? 1 : 0; };
  for (int i = 0; i < 300; ++i) {
    rows.push_back({draws.uniform(), draws.uniform(), draws.uniform()});
    classes.push_back(class_of(rows.back()[0], rows.back()[1]));
  }
  const DecisionTree tree = DecisionTree::grow(rows, classes);
  EXPECT_EQ(tree.class_of(std::vector{0.9, 0.1, 0.5}), 2u);
  EXPECT_EQ(tree.class_of(std::vector{0.2, 0.9, 0.5}), 1u);
  EXPECT_EQ(tree.class_of(std::vector{0.2, 0.1, 0.5}), 0u);
  EXPECT_LE(tree.leaves(), 16u);
}

TEST(DecisionTree, DoesNotLearnSingleRows) {
  const std::vector<std::vector<double>> rows{{1}, {2}, {3}, {4}, {5}, {6}};
  const std::vector<size_t> classes{0, 0, 0, 0, 0, 1};
  EXPECT_EQ(DecisionTree::grow(rows, classes).leaves(), 1u);
}

}  // namespace
}  // namespace kintsugi::opprox
