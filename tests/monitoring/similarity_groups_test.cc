#include <gtest/gtest.h>

#include "common/base/draws.h"
#include "tests/texts/clustering.h"
#include "tests/texts/compression.h"
#include "tests/texts/medoids.h"
#include "tests/texts/phases.h"
#include "tests/texts/population.h"

namespace kintsugi::similarity {
namespace {

Distances of(const std::vector<std::vector<double>>& rows) {
  Distances out(rows.size());
  for (size_t i = 0; i < rows.size(); ++i)
    for (size_t j = 0; j < rows.size(); ++j)
      out.set(i, j, rows[i][j]);
  return out;
}

Distances of_points(const std::vector<double>& points) {
  Distances out(points.size());
  for (size_t i = 0; i < points.size(); ++i)
    for (size_t j = 0; j < points.size(); ++j)
      out.set(i, j, std::abs(points[i] - points[j]));
  return out;
}

TEST(Phases, TheWorkedOneIsTheFourth) {
  const auto windows = of({{0, 1, 1.2, 6, 1.1},
                           {1, 0, .9, 6.2, 1},
                           {1.2, .9, 0, 5.9, 1.05},
                           {6, 6.2, 5.9, 0, 6.1},
                           {1.1, 1, 1.05, 6.1, 0}});
  const auto scores = deviation_scores(windows);
  const double expected[] = {39.650, 41.250, 38.163, 146.460, 40.522};
  for (size_t i = 0; i < 5; ++i)
    EXPECT_NEAR(scores[i], expected[i], 5e-4);
  EXPECT_EQ(faulty_window(scores).window, 3u);
  EXPECT_FALSE(faulty_window(scores).permanent);
  Distances neighbours(5);
  for (size_t i = 0; i < 4; ++i)
    neighbours.set(i, i + 1, std::array{1.0, 1.1, 7.0, 1.2}[i]);
  EXPECT_EQ(most_different_neighbour(neighbours), 3u);
  const std::vector<double> permanent{1.0, 1.2, .9, 1.1, 7.5, 8.0, 7.8};
  EXPECT_EQ(first_high(permanent), 4u);
  EXPECT_TRUE(faulty_window(permanent).permanent);
  EXPECT_EQ(faulty_window(permanent).window, 4u);
}

TEST(Phases, Mirkin) {
  EXPECT_NEAR(mirkin({0, 0, 0, 1, 1}, {0, 0, 1, 1, 1}), 0.4, 1e-9);
  EXPECT_NEAR(mirkin({0, 0, 0, 0}, {0, 0, 0, 1}), 0.5, 1e-9);
  EXPECT_NEAR(mirkin_within({0, 0, 0, 0}, {0, 0, 0, 1}, {0, 1, 2}), 0, 1e-9);
}

TEST(Phases, TheTextsOrderOfRisesIsNotTransitive) {
  const Rise first{0, 1}, second{1, 1.9}, third{2, 3.7};
  EXPECT_TRUE(better_by_text(first, second));
  EXPECT_TRUE(better_by_text(second, third));
  EXPECT_TRUE(better_by_text(third, first));
  EXPECT_FALSE(better_by_text(second, first));
  EXPECT_FALSE(better_by_text(first, third));
  const std::vector<Rise> rises{first, second, third};
  EXPECT_EQ(first_large_rise(rises, 10), 2u);
  EXPECT_EQ(first_large_rise(rises, 0.5), 0u) << "in a short window what is earlier counts more";
}

TEST(Phases, SingleLinkageAndItsThreshold) {
  const Distances points = of_points({1, 1.5, 2, 8, 8.4, 20});
  EXPECT_EQ(single_linkage(points, 1), (std::vector<size_t>{0, 0, 0, 1, 1, 2}));
  EXPECT_EQ(single_linkage(points, threshold_for(points, 2)), (std::vector<size_t>{0, 0, 0, 0, 0, 1}));
  for (size_t groups = 1; groups <= 3; ++groups) {
    const auto of_groups = single_linkage(points, threshold_for(points, groups));
    EXPECT_EQ(*std::max_element(of_groups.begin(), of_groups.end()) + 1, groups);
  }
  const std::vector<size_t> group_of{0, 0, 1, 1};
  const std::vector<double> to_reference{1, 1.2, 0.9, 4};
  EXPECT_EQ(faulty_group(group_of, to_reference), 1u);
}

TEST(Phases, TheEarliestImprobableTimeIsTheCulprit) {
  Draws draws(1);
  std::vector<Observed> samples, window;
  for (int i = 0; i < 500; ++i) {
    samples.push_back({.transition = {1, 2}, .time = 1 + 0.05 * draws.normal()});
    samples.push_back({.transition = {2, 3}, .time = 2 + 0.1 * draws.normal()});
  }
  samples.push_back({.transition = {1, 2}, .time = 500});  // a stray one in the training is cut off
  const auto usual = usual_times(samples);
  EXPECT_NEAR(usual.at({1, 2}).mean, 1, 0.05);
  for (size_t task = 0; task < 10; ++task) {
    const bool culprit = task == 4;
    window.push_back(
        {.task = task, .transition = {1, 2}, .moment = 10 + 0.1 * static_cast<double>(task), .time = 1});
    window.push_back(
        {.task = task, .transition = {2, 3}, .moment = culprit ? 12.0 : 15.0, .time = culprit ? 7.0 : 6.5});
  }
  const auto found = improbable_transition(usual, window);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->task, 4u) << "the others wait for it, and take long later";
  EXPECT_EQ(found->transition, (Transition{2, 3}));
  EXPECT_FALSE(improbable_transition(usual, {}));
}

const std::vector<double> kPoints{1.0, 1.1, 1.2, .9, 1.05, 5.0, 5.1, 4.9, 5.2, 5.05, 9.0};

TEST(Medoids, TheWorkedGroups) {
  const Distances points = of_points(kPoints);
  const double totals[] = {24.10, 4.75, 0.80, 0.65}, criteria[] = {-29.66, -29.91, -7.48, -10.85};
  for (size_t k = 1; k <= 4; ++k) {
    Medoids grouping = around_medoids(points, k);
    EXPECT_NEAR(grouping.total, totals[k - 1], 1e-9) << k;
    if (k == 4) {  // ten groupings have this total; the worked one is around 1.05, 4.9, 5.1 and 9
      grouping = {.medoids = {4, 7, 6, 10}, .group = {0, 0, 0, 0, 0, 2, 2, 1, 2, 2, 3}};
      for (size_t i = 0; i < kPoints.size(); ++i)
        grouping.distance.push_back(std::abs(kPoints[i] - kPoints[grouping.medoids[grouping.group[i]]]));
    }
    EXPECT_NEAR(bic(grouping), criteria[k - 1], 0.005) << k;
  }
  std::vector<double> two;
  for (size_t medoid : around_medoids(points, 2).medoids)
    two.push_back(kPoints[medoid]);
  std::sort(two.begin(), two.end());
  EXPECT_EQ(two[0], 1.05);
  EXPECT_EQ(two[1], 5.1);
  const Medoids best = best_medoids(points, 6);
  EXPECT_EQ(best.medoids.size(), 3u);
  EXPECT_EQ(best.size_of(best.group[10]), 1u);
}

TEST(Medoids, TheTextMissesTheOnlyOutlierAndOursDoesNot) {
  const Distances points = of_points(kPoints);
  const DistanceOf distance = [&](size_t a, size_t b) { return points(a, b); };
  const auto text = text_outliers(best_medoids(points, 6));
  const auto score = std::find_if(text.begin(), text.end(), [](const Suspect& s) { return s.member == 10; });
  EXPECT_EQ(score->score, 0);
  const Medoids halves = around_medoids(points, 2);
  const auto two = text_outliers(halves);
  EXPECT_EQ(two[0].member, 10u);
  EXPECT_NEAR(two[0].score, 2.44, 0.005);
  EXPECT_NEAR(halves.distance[10] / two[0].score, 1.595, 5e-4) << "the deviation, which it inflates itself";
  EXPECT_EQ(outliers(best_medoids(points, 6), distance)[0].member, 10u);
  EXPECT_GT(outliers(best_medoids(points, 6), distance)[0].score, 10);

  const auto nearest = nearest_neighbour_outliers(kPoints.size(), kPoints.size(), distance, 1);
  EXPECT_EQ(nearest[0].member, 10u);
  EXPECT_NEAR(nearest[0].score, 3.80, 1e-9);
  EXPECT_LE(nearest[1].score, 0.10 + 1e-9);
}

TEST(Medoids, TwoAlikeHideInOneRankingAndNotInBoth) {
  std::vector<double> points;
  for (int i = 0; i < 60; ++i)
    points.push_back(1 + 0.01 * i);
  points.push_back(30);
  points.push_back(30.001);
  const Distances distances = of_points(points);
  const DistanceOf distance = [&](size_t a, size_t b) { return distances(a, b); };
  const auto nearest = nearest_neighbour_outliers(points.size(), points.size(), distance, 1);
  EXPECT_LT(nearest[0].score, 1) << "nearest neighbours see nothing";
  auto united = united_ranking(nearest, outliers(capek(points.size(), distance), distance));
  united.resize(5);
  EXPECT_EQ(std::count(united.begin(), united.end(), 60u), 1);
  EXPECT_EQ(std::count(united.begin(), united.end(), 61u), 1);
}

TEST(Medoids, SamplingFindsTheGroupsOfMany) {
  Draws draws(4);
  std::vector<double> points;
  for (int i = 0; i < 3000; ++i)
    points.push_back((i % 3) * 10 + 0.3 * draws.normal());
  points[1234] = 55;
  const DistanceOf distance = [&](size_t a, size_t b) { return std::abs(points[a] - points[b]); };
  const Medoids grouping = capek(points.size(), distance);
  EXPECT_GE(grouping.medoids.size(), 3u);
  EXPECT_EQ(outliers(grouping, distance)[0].member, 1234u);
  EXPECT_EQ(nearest_neighbour_outliers(points.size(), 24, distance, 1)[0].member, 1234u);
}

Edge made(uint64_t from, uint64_t to, double count, double mean, double deviation) {
  return {.transition = {from, to}, .count = count, .mean = mean, .squares = deviation * deviation * count};
}

TEST(Compression, TimesOneAfterTheOther) {
  const Normal both = in_sequence({10, 3}, {5, 4});
  EXPECT_NEAR(both.mean, 15, 1e-9);
  EXPECT_NEAR(both.deviation, 5, 1e-9);
}

TEST(Compression, AChainBecomesOneEdgeOfTwoKindsOfTime) {
  const Model model({made(1, 2, 10, 10, 0.5), made(2, 3, 10, 12, 0.5), made(3, 4, 10, 11, 0.5)});
  const std::vector<Model> models{model, model};
  const Compression plan = Compression::plan(models);
  const Model small = plan.apply(model);
  ASSERT_EQ(small.edges().size(), 1u);
  EXPECT_EQ(small.edges()[0].transition, (Transition{1, 4}));
  double sum = 0;
  for (const Edge& edge : model.edges())
    sum += linear_mean({edge.mean, edge.deviation()});
  EXPECT_NEAR(linear_mean({small.edges()[0].mean, small.edges()[0].deviation()}) / sum, 1, 1e-9);
  const auto parts = plan.parts(model, *plan.chain({1, 4}), [](uint64_t state) { return state == 2; });
  EXPECT_NEAR(parts.wait_mean + parts.compute_mean, sum, 1e-6);
  EXPECT_NEAR(parts.wait_mean, linear_mean({12, 0.5}), 1e-6);
  const std::vector<Model> others{model, Model({made(1, 2, 10, 10, 0.5), made(3, 4, 10, 11, 0.5)})};
  EXPECT_EQ(Compression::plan(others).apply(model).edges().size(), 3u)
      << "not everybody makes the transition in the middle";
}

/// True when `to` can be reached from `from` by at least one edge.
bool reaches(const Model& model, uint64_t from, uint64_t to) {
  std::set<uint64_t> seen;
  std::vector<uint64_t> open{from};
  while (!open.empty()) {
    const uint64_t state = open.back();
    open.pop_back();
    for (const Edge& edge : model.edges()) {
      if (edge.transition.from != state) continue;
      if (edge.transition.to == to) return true;
      if (seen.insert(edge.transition.to).second) open.push_back(edge.transition.to);
    }
  }
  return false;
}

TEST(Compression, KeepsEveryLoopAndEveryStateThatIsAskedFor) {
  Draws draws(6);
  for (int graph = 0; graph < 2000; ++graph) {
    const uint64_t states = 3 + draws.below(9), edges = 2 + draws.below(14);
    std::vector<Edge> drawn;
    for (uint64_t e = 0; e < edges; ++e)
      drawn.push_back(made(1 + draws.below(states), 1 + draws.below(states), 10, 10, 1));
    const Model model(drawn);
    const uint64_t stopped = 1 + draws.below(states);
    const std::vector<Model> models{model};
    const Compression plan = Compression::plan(models, {stopped});
    const Model small = plan.apply(model);
    const auto before = model.states(), after = small.states();
    if (std::binary_search(before.begin(), before.end(), stopped)) {
      ASSERT_TRUE(std::binary_search(after.begin(), after.end(), stopped)) << graph;
    }
    // What is left is connected as before: a state lies on a circuit exactly when it did; and no circuit vanishes whole.
    for (uint64_t a : after)
      for (uint64_t b : after)
        ASSERT_EQ(reaches(model, a, b), reaches(small, a, b)) << graph;
    for (uint64_t a : before) {
      if (!reaches(model, a, a)) continue;
      const bool kept = std::any_of(after.begin(), after.end(), [&](uint64_t b) {
        return reaches(small, b, b) && (a == b || (reaches(model, a, b) && reaches(model, b, a)));
      });
      ASSERT_TRUE(kept) << graph;
    }
    ASSERT_LE(small.edges().size(), model.edges().size());
  }
}

Model random_model(Draws& draws, double shift) {
  std::vector<Edge> edges;
  for (uint64_t s = 1; s <= 20; ++s)
    for (uint64_t t : {s % 20 + 1, (s * 7) % 20 + 1})
      edges.push_back(made(s, t, 5 + static_cast<double>(draws.below(200)),
                           10 + static_cast<double>(s % 5) + shift + 0.05 * draws.normal(), 0.8));
  return Model(edges);
}

/// A population of the models, each distance in which is that of difference() within these errors.
Population compared(const std::vector<Model>& models, double absolute, double relative) {
  Population population(transitions_of(models), models.size());
  for (const Model& model : models)
    population.add(model);
  for (size_t a = 0; a < models.size(); ++a)
    for (size_t b = 0; b < models.size(); ++b) {
      const double exact = difference(models[a], models[b], Form::kOurs);
      EXPECT_NEAR(population.distance(a, b), exact, absolute + relative * exact) << a << " " << b;
    }
  return population;
}

TEST(Population, ComparesAsDifferenceDoes) {
  Draws draws(8);
  std::vector<Model> models;
  for (int i = 0; i < 12; ++i)
    models.push_back(random_model(draws, i == 5 ? 1.5 : 0));
  std::vector<Edge> fewer(models[3].edges().begin(), models[3].edges().end() - 7);
  models.emplace_back(fewer);
  const Population population = compared(models, 1e-3, 1e-3);
  EXPECT_EQ(oddest(population, 1, 1).front(), 5u);
}

TEST(Population, ComparesModelsOfRareEdgesAndTimesFarApartAsDifferenceDoes) {
  Draws draws(10);
  std::vector<Model> models;
  for (int i = 0; i < 30; ++i) {
    std::vector<Edge> edges;
    for (uint64_t state = 1; state <= 25; ++state)
      for (uint64_t way = 0; way < 3; ++way)
        if (draws.below(4) != 0)
          edges.push_back(made(state, state + 1 + way, 1 + std::floor(std::exp2(draws.uniform(0, 9))),
                               draws.below(2) == 0 ? draws.uniform(0, 30) : 12 + 0.2 * draws.normal(),
                               draws.uniform(0, 4)));
    models.emplace_back(edges);
  }
  (void)compared(models, 1e-4, 1e-5);
}

TEST(Population, FindsPlantedOnesAmongThousandsOnSamples) {
  Draws draws(9);
  std::vector<Model> models;
  for (int i = 0; i < 2000; ++i)
    models.push_back(random_model(draws, i == 777 ? 1.2 : 0));
  Population population(transitions_of(models), models.size());
  for (const Model& model : models)
    population.add(model);
  EXPECT_EQ(oddest(population, 1, 3).front(), 777u);
}

}  // namespace
}  // namespace kintsugi::similarity
