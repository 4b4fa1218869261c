// Threads of a simulated process that are held up, and faults at points in the code of one machine.
#include <gtest/gtest.h>

#include "common/runtime/event.h"
#include "common/runtime/fault_points.h"
#include "common/runtime/task_group.h"
#include "tests/expect_ok.h"
#include "tests/simulation/runtime/sim_node.h"

namespace kintsugi::simulation {
namespace {

using runtime::FaultAction;
using runtime::FaultPoint;

/// Counts seconds, and passes a fault point in each.
struct Ticker {
  explicit Ticker(runtime::Runtime given) : runtime(given), tasks(given) {
    tasks.spawn([](Ticker& self) -> asio::awaitable<void> {
      bool goes_on = true;
      while (goes_on) {
        goes_on = co_await self.tasks.sleep_for(1s);
        if (self.runtime.faults != nullptr)
          self.failed += !(co_await self.runtime.faults->pass(FaultPoint::kHeartbeat, "beat")).status.ok();
        ++self.ticks;
      }
    }(*this));
  }

  runtime::Runtime runtime;
  runtime::TaskGroup tasks;
  int ticks = 0, failed = 0;
};

struct World {
  World() : simulation(1), one(simulation, "one"), other(simulation, "other") {
    ticker.emplace(one.runtime());
    observer.emplace(one.observer_runtime());
    others.emplace(other.runtime());
  }
  ~World() {
    for (auto* each : {&ticker, &observer, &others}) {
      (*each)->tasks.request_stop();
      simulation.run((*each)->tasks.join());
    }
  }
  Simulation simulation;
  SimNode one, other;
  std::optional<Ticker> ticker, observer, others;
};

TEST(SimThread, AStoppedProcessDoesNothingUntilItIsContinued) {
  World world;
  world.simulation.run_for(2500ms);
  EXPECT_EQ(world.ticker->ticks, 2);
  world.one.stop_process();
  world.simulation.run_for(10s);
  EXPECT_EQ(world.ticker->ticks, 2);
  EXPECT_EQ(world.observer->ticks, 2);
  EXPECT_EQ(world.others->ticks, 12);
  EXPECT_EQ(world.one.held_for(), 10s);
  world.one.continue_process();
  world.simulation.run_for(1ms);
  EXPECT_EQ(world.ticker->ticks, 3);  // the sleep that was over meanwhile
  world.simulation.run_for(3s);
  EXPECT_EQ(world.ticker->ticks, 6);
}

TEST(SimThread, ATimerThatCameDueMeanwhileCanStillBeCancelled) {
  World world;
  runtime::Clock& clock = world.one.runtime().clock;
  bool ran = false;
  const auto timer = clock.call_at(clock.now() + 1s, [&] { ran = true; });
  world.one.stop_process();
  world.simulation.run_for(2s);
  EXPECT_TRUE(clock.cancel(timer));
  EXPECT_FALSE(clock.cancel(timer));
  world.one.continue_process();
  world.simulation.run_for(1s);
  EXPECT_FALSE(ran);
}

TEST(SimThread, ALoopAtAFaultPointHoldsTheThreadButNotItsObserver) {
  World world;
  ASSERT_TRUE(world.one.faults().set(
      {.point = FaultPoint::kHeartbeat, .action = FaultAction::kCpuLoop, .times = 1, .delay = 5s}));
  world.simulation.run_for(5500ms);  // from 1 s to 6 s
  EXPECT_EQ(world.ticker->ticks, 0);
  EXPECT_EQ(world.observer->ticks, 5);
  EXPECT_EQ(world.one.held_for(), 4500ms);
  world.simulation.run_for(2s);
  EXPECT_EQ(world.ticker->ticks, 2);
}

TEST(SimThread, AFaultPointIsOfOneMachineAndEndsWithItsLife) {
  World world;
  ASSERT_TRUE(world.one.faults().set({.point = FaultPoint::kHeartbeat, .action = FaultAction::kHang}));
  ASSERT_TRUE(world.other.faults().set({.point = FaultPoint::kHeartbeat, .action = FaultAction::kError}));
  world.simulation.run_for(3500ms);
  EXPECT_EQ(world.ticker->ticks, 0);
  EXPECT_EQ(world.others->ticks, 3);
  EXPECT_EQ(world.others->failed, 3);
  world.one.crash();
  world.one.restart();
  EXPECT_TRUE(world.one.faults().list().empty());
  world.simulation.run_for(1s);
  EXPECT_GT(world.ticker->ticks, 0);  // what hung goes on, to its end
}

}  // namespace
}  // namespace kintsugi::simulation
