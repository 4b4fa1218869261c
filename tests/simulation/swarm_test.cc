// A few seeds of kintsugi-simulate, and that its judge is awake.
#include "tests/simulation/swarm/swarm.h"

#include "tests/simulation/swarm/seed_runner.h"

namespace kintsugi::simulation {
namespace {

constexpr size_t kSteps = 120;

TEST(Swarm, NothingIsFoundWrongInTheUsualSeeds) {
  SeedRunner runner(1);
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    const SeedReport report = runner.run_one({.seed = seed, .steps = kSteps, .kept = {}});
    EXPECT_FALSE(report.finding) << "seed " << seed << ": " << name_of(report.finding.violation) << ": "
                                 << report.finding.message << "; replay with kintsugi-simulate --seeds "
                                 << seed;
    EXPECT_GT(report.coverage.outcomes.size(), 0u) << "seed " << seed << " did nothing";
  }
}

TEST(Swarm, OneSeedGivesOneScheduleAndOneRun) {
  const Schedule one = make_schedule(5, kSteps), again = make_schedule(5, kSteps),
                 other = make_schedule(6, kSteps);
  ASSERT_EQ(one.steps.size(), kSteps);
  const auto dice = [](const Schedule& schedule) {
    std::vector<uint64_t> all;
    for (const Step& step : schedule.steps)
      all.push_back(step.dice);
    return all;
  };
  EXPECT_EQ(dice(one), dice(again));
  EXPECT_NE(dice(one), dice(other));
  SeedRunner runner(1);
  const SeedReport first = runner.run_one({.seed = 5, .steps = kSteps, .kept = {}});
  const SeedReport second = runner.run_one({.seed = 5, .steps = kSteps, .kept = {}});
  EXPECT_EQ(first.coverage.outcomes, second.coverage.outcomes);
  EXPECT_EQ(first.coverage.states, second.coverage.states);
}

TEST(Swarm, SomeSeedsHaveCallsThatBlockAndTheOthersStayWhatTheyWere) {
  size_t with = 0;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    const Schedule schedule = make_schedule(seed, kSteps);
    with +=
        std::ranges::any_of(schedule.steps, [](const Step& step) { return step.act == Act::kBlockingCalls; })
            ? 1
            : 0;
  }
  EXPECT_GT(with, 25u);
  EXPECT_LT(with, 75u);
}

TEST(Swarm, TheInspectorMissesAChunkThatSomebodyTookAway) {
  SimulatedCluster cluster({.seed = 3, .chunkservers = 10});
  KINTSUGI_ASSERT_OK(cluster.start());
  KINTSUGI_ASSERT_OK(cluster.put("/file", 3'000'000));
  Inspector inspector(cluster);
  EXPECT_FALSE(inspector.look());
  KINTSUGI_EXPECT_OK(inspector.whole());
  KINTSUGI_EXPECT_OK(inspector.tidy());
  const auto chunks = inspector.chunks_on(4);
  ASSERT_FALSE(chunks.empty());
  KINTSUGI_ASSERT_OK(cluster.run(cluster.store(4)->remove(Context{}, chunks.front())));
  EXPECT_EQ(inspector.look().violation, Violation::kChunkGone);
}

TEST(Swarm, TheInspectorCountsWhatIsLostOnPurpose) {
  SimulatedCluster cluster({.seed = 4, .chunkservers = 10, .policy = "rs-4-2-64k"});
  KINTSUGI_ASSERT_OK(cluster.start());
  KINTSUGI_ASSERT_OK(cluster.put("/file", 1'000'000));
  Inspector inspector(cluster);
  EXPECT_FALSE(inspector.look());
  std::vector<size_t> holders;
  for (size_t server = 0; server < cluster.chunkservers(); ++server)
    if (!inspector.chunks_on(server).empty()) holders.push_back(server);
  ASSERT_EQ(holders.size(), 6u);
  for (int taken = 0; taken < 2; ++taken) {
    const ChunkId chunk = inspector.chunks_on(holders[taken]).front();
    EXPECT_TRUE(inspector.may_lose(holders[taken], chunk));
    inspector.damaged(holders[taken], chunk);
  }
  EXPECT_FALSE(inspector.may_lose(holders[2])) << "a third loss is more than rs-4-2 survives";
  EXPECT_TRUE(inspector.may_lose(holders[0])) << "what is lost already can be lost again";
}

}  // namespace
}  // namespace kintsugi::simulation
