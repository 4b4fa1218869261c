#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "monitoring/progress/counts/loop_order.h"
#include "monitoring/progress/texts/path_probability.h"
#include "tests/monitoring/circuits.h"

namespace kintsugi::progress {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;
using testing::SizeIs;
using testing::UnorderedElementsAre;

Successors graph_of(size_t nodes, const std::vector<std::pair<uint32_t, uint32_t>>& edges) {
  Successors graph(nodes);
  for (const auto& [from, to] : edges)
    graph[from].push_back(to);
  return graph;
}

struct LoopType {
  const char* name;
  std::vector<std::pair<uint32_t, uint32_t>> edges;
  std::vector<uint32_t> nodes;
  std::vector<std::pair<uint32_t, uint32_t>> backedges;
  size_t circuits;
};

TEST(Loops, TheFiveTypesOfTheTextAreOneLoopEach) {
  const std::vector<LoopType> types = {
      {"1", {{0, 1}, {1, 2}, {2, 1}, {1, 9}}, {1, 2}, {{2, 1}}, 1},
      {"2", {{0, 1}, {1, 2}, {2, 3}, {1, 3}, {3, 1}, {3, 9}}, {1, 2, 3}, {{3, 1}}, 2},
      {"3", {{0, 1}, {1, 2}, {1, 3}, {2, 4}, {3, 4}, {4, 1}, {4, 9}}, {1, 2, 3, 4}, {{4, 1}}, 2},
      {"4", {{0, 1}, {1, 2}, {1, 3}, {2, 1}, {3, 1}, {1, 9}}, {1, 2, 3}, {{2, 1}, {3, 1}}, 2},
      {"5", {{0, 1}, {1, 2}, {2, 1}, {2, 3}, {3, 1}, {1, 9}}, {1, 2, 3}, {{2, 1}, {3, 1}}, 2}};
  for (const LoopType& type : types) {
    SCOPED_TRACE(type.name);
    const Successors graph = graph_of(10, type.edges);
    const auto loops = natural_loops(graph, {0});
    ASSERT_THAT(loops, SizeIs(1));
    EXPECT_EQ(loops[0].entry, 1u);
    EXPECT_EQ(loops[0].nodes, type.nodes);
    EXPECT_EQ(loops[0].backedges, type.backedges);
    EXPECT_FALSE(loops[0].irreducible);
    EXPECT_THAT(*circuits(graph, 100), SizeIs(type.circuits));
    const auto merged = *merged_circuits(graph, {0}, 100);
    ASSERT_THAT(merged, SizeIs(1));
    EXPECT_EQ(merged[0].nodes, type.nodes);
    EXPECT_EQ(merged[0].backedges, type.backedges);
  }
}

TEST(Loops, TheSecondTypeHasALongCircuitAndAShortOne) {
  auto found = *circuits(graph_of(10, {{0, 1}, {1, 2}, {2, 3}, {1, 3}, {3, 1}, {3, 9}}), 100);
  for (std::vector<uint32_t>& circuit : found)
    std::sort(circuit.begin(), circuit.end());
  EXPECT_THAT(found, UnorderedElementsAre(ElementsAre(1, 2, 3), ElementsAre(1, 3)));
}

TEST(Loops, CircuitsMergedByEntryMissWhatAnInnerLoopAdds) {
  // h = 0, a = 1, n = 2, b = 3: a receive at the top of an inner while.
  const Successors graph = graph_of(4, {{0, 1}, {1, 2}, {2, 1}, {1, 3}, {3, 0}});
  auto merged = *merged_circuits(graph, {0}, 100);
  ASSERT_THAT(merged, SizeIs(2));
  EXPECT_THAT(merged[0].nodes, ElementsAre(0, 1, 3));
  EXPECT_THAT(merged[1].nodes, ElementsAre(1, 2));
  const auto natural = natural_loops(graph, {0});
  ASSERT_THAT(natural, SizeIs(2));
  EXPECT_THAT(natural[0].nodes, ElementsAre(0, 1, 2, 3));
  close_under_nesting(merged);
  EXPECT_THAT(merged[0].nodes, ElementsAre(0, 1, 2, 3));
}

TEST(Loops, SeveralEntriesThatDominateNothingAreOneIrreducibleLoop) {
  const Successors graph = graph_of(4, {{0, 1}, {0, 2}, {1, 2}, {2, 1}, {2, 3}});
  const auto loops = natural_loops(graph, {0});
  ASSERT_THAT(loops, SizeIs(1));
  EXPECT_TRUE(loops[0].irreducible);
  EXPECT_THAT(loops[0].nodes, ElementsAre(1, 2));
  EXPECT_THAT(loops[0].backedges, UnorderedElementsAre(Pair(1, 2), Pair(2, 1)));
}

TEST(Loops, AnEmptyGraphAndEntriesThatDoNotExistHaveNone) {
  EXPECT_THAT(natural_loops({}, {3}), IsEmpty());
  EXPECT_THAT(natural_loops(graph_of(2, {{0, 1}}), {7}), IsEmpty());
}

bool is_reducible(const std::vector<Loop>& loops) {
  return std::none_of(loops.begin(), loops.end(), [](const Loop& loop) { return loop.irreducible; });
}

TEST(Loops, NaturalLoopsAreTheClosedMergedCircuitsOfRandomGraphs) {
  std::mt19937_64 random(20'261'122);
  int tried = 0, differ = 0;
  for (int attempt = 0; tried < 10'000; attempt++) {
    ASSERT_LT(attempt, 200'000);
    const auto nodes = static_cast<uint32_t>(2 + random() % 11);
    Successors graph(nodes);
    for (uint32_t from = 0; from < nodes; from++)
      for (uint32_t to = 0; to < nodes; to++)
        if (random() % 100 < 150 / nodes) graph[from].push_back(to);
    // Reducible ones that are reached from the entry.
    const auto natural = natural_loops(graph, {0});
    const auto merged_or = merged_circuits(graph, {0}, 20'000);
    if (!merged_or || !is_reducible(natural)) continue;
    tried++;
    auto merged = *merged_or;
    const auto nodes_of = [](const std::vector<Loop>& loops) {
      std::vector<std::tuple<uint32_t, std::vector<uint32_t>, std::vector<std::pair<uint32_t, uint32_t>>>>
          result;
      for (const Loop& loop : loops) {
        auto backedges = loop.backedges;
        std::sort(backedges.begin(), backedges.end());
        result.emplace_back(loop.entry, loop.nodes, backedges);
      }
      std::sort(result.begin(), result.end());
      return result;
    };
    differ += nodes_of(merged) != nodes_of(natural);
    close_under_nesting(merged);
    ASSERT_EQ(nodes_of(merged), nodes_of(natural)) << "attempt " << attempt << " of seed 20261122";
  }
  EXPECT_GT(differ, 0);  // plain merging is not the same
}

/// A loop around diamonds in a row: n of them have 2^n circuits.
Successors loop_of_diamonds(uint32_t diamonds) {
  Successors graph(3 * diamonds + 1);
  for (uint32_t i = 0; i < diamonds; i++) {
    graph[3 * i] = {3 * i + 1, 3 * i + 2};
    graph[3 * i + 1] = graph[3 * i + 2] = {3 * i + 3};
  }
  graph[3 * diamonds] = {0};
  return graph;
}

TEST(Loops, ManyWaysThroughOneLoopAreOneLoop) {
  EXPECT_THAT(*circuits(loop_of_diamonds(10), 2'000), SizeIs(1'024));
  const Successors graph = loop_of_diamonds(20);
  EXPECT_THAT(natural_loops(graph, {0}), SizeIs(1));
  EXPECT_EQ(circuits(graph, 1'000), std::nullopt);
}

TEST(LoopOrder, TasksInALoopOfAMillionCircuitsAreCompared) {
  const Successors graph = loop_of_diamonds(20);
  const auto rounds = [](double count) { return [count](uint32_t, uint32_t) { return count; }; };
  const auto loops = natural_loops(graph, {0});
  EXPECT_EQ(LoopOrder(graph, loops).compare(1, rounds(8), 31, rounds(7)), kFirstOnSecond);
  EXPECT_EQ(LoopOrder(graph, loops).compare(1, rounds(7), 31, rounds(7)), kSecondOnFirst);
}

/// The lexicographic example: outer loop {2,3,4,5}, inner loop {3,4}.
struct Nested {
  Successors graph = graph_of(7, {{2, 3}, {3, 4}, {4, 3}, {4, 5}, {5, 2}, {5, 6}});
  std::vector<Loop> loops = natural_loops(graph, {2});
  struct Task {
    uint32_t state;
    double outer, inner;
  };
  std::vector<Task> tasks{{4, 7, 40}, {4, 8, 33}, {5, 8, 35}, {3, 8, 34}};

  Dependence order(int first, int second, bool text_form) const {
    const auto counts = [this](int task) {
      return [&, task](uint32_t from, uint32_t to) {
        if (from == 5 && to == 2) return tasks[task].outer;
        if (from == 4 && to == 3) return tasks[task].inner;
        return 0.0;
      };
    };
    return LoopOrder(graph, loops, text_form)
        .compare(tasks[first].state, counts(first), tasks[second].state, counts(second));
  }
};

TEST(LoopOrder, OuterIterationsDecideBeforeInnerOnes) {
  const Nested nested;
  ASSERT_THAT(nested.loops, SizeIs(2));
  EXPECT_THAT(nested.loops[0].nodes, ElementsAre(2, 3, 4, 5));
  EXPECT_THAT(nested.loops[1].nodes, ElementsAre(3, 4));
  for (const bool text_form : {false, true}) {
    EXPECT_EQ(nested.order(1, 0, text_form), kFirstOnSecond);
    EXPECT_EQ(nested.order(2, 0, text_form), kFirstOnSecond);
    EXPECT_EQ(nested.order(3, 0, text_form), kFirstOnSecond);
    EXPECT_EQ(nested.order(0, 3, text_form), kSecondOnFirst);
    EXPECT_EQ(nested.order(3, 1, text_form), kFirstOnSecond);  // 34 > 33
    EXPECT_EQ(nested.order(2, 1, text_form), kFirstOnSecond);  // at 5, three hops against two
    EXPECT_EQ(nested.order(2, 3, text_form), kFirstOnSecond);  // at 5, three hops against one
  }
}

TEST(LoopOrder, IterationsAreTheCountsOfAllBackedgesTogether) {
  // The fourth type of loop: 1 -> 2 -> 1 and 1 -> 3 -> 1.
  const Successors graph = graph_of(10, {{0, 1}, {1, 2}, {1, 3}, {2, 1}, {3, 1}, {1, 9}});
  const auto loops = natural_loops(graph, {0});
  const auto counts = [](double by_two, double by_three) {
    return [=](uint32_t from, uint32_t to) { return to != 1 ? 0 : from == 2 ? by_two : by_three; };
  };
  for (const bool text_form : {false, true}) {
    const LoopOrder order(graph, loops, text_form);
    EXPECT_EQ(order.compare(1, counts(3, 4), 1, counts(6, 0)), kFirstOnSecond) << "seven against six";
    EXPECT_EQ(order.compare(1, counts(3, 3), 1, counts(6, 0)), kNoDependence);
  }
}

TEST(LoopOrder, BranchesOfAnIfAreWeaklyOrderedInOurFormOnly) {
  // 0 -> 1 -> 2 -> 4, 0 -> 3 -> 4, 4 -> 0: 2 and 3 are in different branches.
  const Successors graph = graph_of(5, {{0, 1}, {1, 2}, {2, 4}, {0, 3}, {3, 4}, {4, 0}});
  const auto loops = natural_loops(graph, {0});
  const auto none = [](uint32_t, uint32_t) { return 0.0; };
  EXPECT_EQ(LoopOrder(graph, loops).compare(2, none, 3, none), kFirstOnSecond);
  EXPECT_EQ(LoopOrder(graph, loops, true).compare(2, none, 3, none), kFirstOnSecond);
  EXPECT_EQ(LoopOrder(graph, loops).compare(2, none, 2, none), kNoDependence);
  EXPECT_EQ(LoopOrder(graph, loops).compare(4, none, 3, none), kFirstOnSecond);
}

Markov figure_4() {
  Markov model;
  for (const auto& [from, to, count] : std::vector<std::tuple<int, int, double>>{{1, 2, 10},
                                                                                 {2, 3, 7},
                                                                                 {2, 9, 3},
                                                                                 {3, 4, 10},
                                                                                 {4, 5, 10},
                                                                                 {5, 6, 9},
                                                                                 {5, 11, 1},
                                                                                 {6, 7, 10},
                                                                                 {7, 8, 10},
                                                                                 {8, 5, 10},
                                                                                 {9, 10, 10},
                                                                                 {10, 11, 10}})
    model.add(from, to, count);
  return model;
}

TEST(PathProbability, DependencesOfFigure4) {
  const Markov model = figure_4();
  const HittingProbability hitting(model);
  const auto p = [&](int from, int to) { return hitting(model.find(from), model.find(to)); };
  EXPECT_NEAR(p(3, 5), 1, 1e-9);
  EXPECT_NEAR(p(5, 3), 0, 1e-9);
  EXPECT_NEAR(p(8, 5), 1, 1e-9);
  EXPECT_NEAR(p(5, 8), 0.9, 1e-9);
  EXPECT_NEAR(p(1, 3), 0.7, 1e-9);
  EXPECT_NEAR(p(1, 5), 0.7, 1e-9);
  EXPECT_NEAR(p(1, 8), 0.63, 1e-9);
  EXPECT_NEAR(p(1, 10), 0.3, 1e-9);
  EXPECT_NEAR(p(3, 8), 0.9, 1e-9);
  EXPECT_NEAR(p(8, 3), 0, 1e-9);
  for (const int later : {3, 5, 8, 10})
    EXPECT_NEAR(p(later, 1), 0, 1e-9) << later;
  for (const int branch : {3, 5, 8})
    EXPECT_EQ(dependence(p(branch, 10), p(10, branch), 0.001), kNoDependence) << branch;

  const std::map<char, int> at{{'a', 1}, {'b', 3}, {'c', 5}, {'d', 8}, {'e', 10}};
  std::map<char, std::string> waits_for;
  for (const auto& [x, state] : at)
    for (const auto& [y, other] : at)
      if (x != y && dependence(p(state, other), p(other, state), 0.001) == kFirstOnSecond) waits_for[x] += y;
  EXPECT_EQ(waits_for['b'], "a");
  EXPECT_EQ(waits_for['c'], "abd");
  EXPECT_EQ(waits_for['d'], "ab");
  EXPECT_EQ(waits_for['e'], "a");
  EXPECT_EQ(waits_for['a'], "");  // the least progressed
}

TEST(PathProbability, HittingProbabilitiesAndSumsOverSimplePathsDiffer) {
  Markov model;
  enum { h, a, n, b, e };
  model.add(h, a, 10);
  model.add(a, n, 6);
  model.add(a, b, 4);
  model.add(n, a, 10);
  model.add(b, h, 8);
  model.add(b, e, 2);
  const HittingProbability hitting(model);
  const auto both = [&](uint64_t from, uint64_t to) {
    return std::pair(hitting(model.find(from), model.find(to)),
                     simple_path_probability(model, model.find(from), model.find(to)));
  };
  EXPECT_NEAR(both(n, b).first, 1, 1e-9);
  EXPECT_NEAR(both(n, b).second, 0.4, 1e-9);
  EXPECT_NEAR(both(b, n).first, 0.7059, 5e-5);
  EXPECT_NEAR(both(b, n).second, 0.48, 1e-9);
  EXPECT_NEAR(both(a, e).first, 1, 1e-9);
  EXPECT_NEAR(both(a, e).second, 0.08, 1e-9);
  EXPECT_EQ(dependence(both(n, b).first, both(b, n).first, 0.001), kSecondOnFirst);
  EXPECT_EQ(dependence(both(n, b).second, both(b, n).second, 0.001), kUndefined);
}

TEST(PathProbability, ALoopAtOneStateIsLeftInTheEnd) {
  Markov model;
  model.add(1, 1, 5);
  model.add(1, 2, 5);
  EXPECT_NEAR(HittingProbability(model)(model.find(1), model.find(2)), 1, 1e-9);
  EXPECT_NEAR(simple_path_probability(model, model.find(1), model.find(2)), 0.5, 1e-9);
}

TEST(PathProbability, CountsOfNestedLoopsWithoutThemMislead) {
  const auto model = [](double exits) {
    Markov model;
    for (const auto& [from, to, count] : std::vector<std::tuple<int, int, double>>{
             {2, 3, 35}, {3, 4, 176}, {4, 3, 142}, {4, 5, 32}, {5, 2, 31}})
      model.add(from, to, count);
    if (exits > 0) model.add(5, 6, exits);
    return model;
  };
  const auto table = [](const Markov& model, int from, int to, double epsilon) {
    const HittingProbability p(model);
    const uint32_t x = model.find(from), y = model.find(to);
    return dependence(p(x, y), p(y, x), epsilon);
  };
  const Markov closed = model(0);
  const HittingProbability certain(closed);
  for (const int from : {3, 4, 5})
    for (const int to : {3, 4, 5})
      EXPECT_NEAR(certain(closed.find(from), closed.find(to)), 1, 1e-9) << from << " to " << to;
  for (const auto& [from, to] : {std::pair(3, 4), {3, 5}, {4, 5}})
    EXPECT_EQ(table(closed, from, to, 0.001), kUndefined);
  const Markov open = model(9);
  const HittingProbability p(open);
  EXPECT_NEAR(p(open.find(3), open.find(4)), 1, 1e-9);
  EXPECT_NEAR(p(open.find(4), open.find(3)), 0.9586, 5e-5);
  EXPECT_NEAR(p(open.find(3), open.find(5)), 1, 1e-9);
  EXPECT_NEAR(p(open.find(5), open.find(3)), 0.775, 5e-5);
  EXPECT_NEAR(p(open.find(4), open.find(5)), 1, 1e-9);
  EXPECT_NEAR(p(open.find(5), open.find(4)), 0.775, 5e-5);
  EXPECT_EQ(table(open, 4, 3, 0.001), kFirstOnSecond);
  EXPECT_EQ(table(open, 5, 3, 0.001), kFirstOnSecond);
  EXPECT_EQ(table(open, 5, 4, 0.001), kFirstOnSecond);
}

TEST(PathProbability, OneOddEdgeDoesNotTurnOneIntoSomethingElse) {
  EXPECT_EQ(dependence(0.5, 0.99999, 0.001), kFirstOnSecond);
  EXPECT_EQ(dependence(0.5, 0.99999, 0), kUndefined);
  EXPECT_EQ(dependence(0.0001, 1, 0.001), kFirstOnSecond);
}

TEST(PathProbability, TheTableAndTheUnionOfViews) {
  EXPECT_EQ(dependence(0, 0, 0), kNoDependence);
  EXPECT_EQ(dependence(0, 0.5, 0), kFirstOnSecond);
  EXPECT_EQ(dependence(0, 1, 0), kFirstOnSecond);
  EXPECT_EQ(dependence(0.5, 0, 0), kSecondOnFirst);
  EXPECT_EQ(dependence(1, 0, 0), kSecondOnFirst);
  EXPECT_EQ(dependence(0.5, 1, 0), kFirstOnSecond);
  EXPECT_EQ(dependence(1, 0.5, 0), kSecondOnFirst);
  EXPECT_EQ(dependence(0.5, 0.5, 0), kUndefined);
  EXPECT_EQ(dependence(1, 1, 0), kUndefined);
  EXPECT_EQ(kFirstOnSecond | kNoDependence, kFirstOnSecond);
  EXPECT_EQ(kFirstOnSecond | kFirstOnSecond, kFirstOnSecond);
  EXPECT_EQ(kSecondOnFirst | kSecondOnFirst, kSecondOnFirst);
  EXPECT_EQ(kFirstOnSecond | kSecondOnFirst, kUndefined);
  EXPECT_EQ(kNoDependence | kNoDependence, kNoDependence);
}

TEST(PathProbability, APathThatWasNeverSeenIsNoDependence) {
  Markov model;
  model.add(1, 2);
  model.add(3, 4);
  const HittingProbability p(model);
  EXPECT_EQ(p(model.find(1), model.find(4)), 0);
  EXPECT_EQ(p(model.find(4), model.find(1)), 0);
  EXPECT_EQ(dependence(p(model.find(1), model.find(4)), p(model.find(4), model.find(1)), 0.001),
            kNoDependence);
}

}  // namespace
}  // namespace kintsugi::progress
