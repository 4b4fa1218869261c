#include <random>

#include <gtest/gtest.h>

#include "monitoring/model/worker_model.h"

namespace kintsugi::model {
namespace {

WorkerModel random_model(std::mt19937_64& random, size_t transitions) {
  WorkerModel model;
  for (size_t i = 0; i < transitions; i++)
    model.add(random() % 40, random() % 40, Duration(1 + random() % 10'000'000'000));
  return model;
}

TEST(WorkerModel, IsTheSameForEveryShapeOfTree) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 50; round++) {
    std::vector<WorkerModel> leaves;
    for (size_t i = 0; i < 2 + random() % 30; i++)
      leaves.push_back(random_model(random, random() % 200));
    WorkerModel in_a_row;
    for (const WorkerModel& leaf : leaves)
      in_a_row.merge(leaf);
    // Any two are merged until one is left: every order and shape may come.
    while (leaves.size() > 1) {
      std::shuffle(leaves.begin(), leaves.end(), random);
      WorkerModel last = std::move(leaves.back());
      leaves.pop_back();
      leaves.back().merge(last);
    }
    ASSERT_EQ(leaves.front(), in_a_row) << "round " << round << " of seed 7";
    ASSERT_EQ(leaves.front(), in_a_row);
    ASSERT_EQ(leaves.front().dropped(), in_a_row.dropped());
  }
}

TEST(WorkerModel, StaysTheSameForEveryOrderWhenItIsFull) {
  const auto some = [](uint64_t first) {
    WorkerModel model;
    for (uint64_t i = 0; i < WorkerModel::kMaxEdges * 2 / 3; i++)
      model.add(first + i * 3, 1, EdgeModel{.count = 1});
    return model;
  };
  WorkerModel one = some(0), two = some(1), three = some(2);
  WorkerModel left = one;
  left.merge(two);
  left.merge(three);
  two.merge(three);
  two.merge(one);
  EXPECT_EQ(left, two);
  EXPECT_EQ(left.edges().size(), WorkerModel::kMaxEdges);
  EXPECT_GT(left.dropped(), 0u);
}

TEST(WorkerModel, ProbabilitiesAreSharesOfWhatLeavesAState) {
  WorkerModel model;
  for (int i = 0; i < 4; i++)
    model.add(3, 1, 1ms);
  for (int i = 0; i < 6; i++)
    model.add(3, 2, 1ms);
  EXPECT_DOUBLE_EQ(model.probability(3, 1), 0.4);
  EXPECT_DOUBLE_EQ(model.probability(3, 2), 0.6);
  EXPECT_DOUBLE_EQ(model.probability(1, 3), 0);
}

TEST(WorkerModel, MeansAndDeviationsAreOfTheLogarithm) {
  WorkerModel model;
  model.add(1, 2, Duration(1 << 10));
  model.add(1, 2, Duration(1 << 12));
  const EdgeModel& edge = model.edges().begin()->second;
  EXPECT_NEAR(edge.mean(), 11, 1.0 / 256);
  EXPECT_NEAR(edge.deviation(), 1, 1.0 / 256);
  EXPECT_EQ(edge.octaves[10], 1u);
  EXPECT_EQ(edge.octaves[12], 1u);
}

TEST(WorkerModel, AWindowIsTheDifferenceOfTwoCumulativeOnes) {
  std::mt19937_64 random(3);
  const WorkerModel first = random_model(random, 300), grown = random_model(random, 200);
  WorkerModel both = first;
  both.merge(grown);
  EXPECT_EQ(both.since(first), grown);
  EXPECT_EQ(first.since(both), first);  // counts fell: started again
}

TEST(WorkerModel, OfAProcessHasTheSameStatesWhateverTheirNumbers) {
  const auto view_of = [](uint32_t offset) {
    proto::SightReport report;
    report.set_process(9);
    report.set_sequence(1);
    for (uint32_t i = 0; i < 2; i++) {
      proto::SightState& state = *report.add_new_states();
      state.set_state(offset + i);
      state.set_role_path(100 + i);
      state.set_role(offset);
    }
    proto::SightRole& role = *report.add_roles();
    role.set_role(offset);
    role.set_name("chunkserver.read_chunk");
    proto::SightEdge& edge = *report.add_edges();
    edge.set_from(offset);
    edge.set_to(offset + 1);
    edge.set_count(3);
    ProcessView view;
    EXPECT_TRUE(view.accept(report, TimePoint(1h)).ok());
    return view;
  };
  const ProcessView one = view_of(1), other = view_of(50);
  EXPECT_EQ(WorkerModel::of(one), WorkerModel::of(other));
  EXPECT_EQ(WorkerModel::of(one, "chunkserver.read_chunk").edges().size(), 1u);
  EXPECT_TRUE(WorkerModel::of(one, "chunkserver.write_chunk").edges().empty());
}

}  // namespace
}  // namespace kintsugi::model
