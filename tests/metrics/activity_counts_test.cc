#include <gtest/gtest.h>

#include "common/runtime/activity_log.h"
#include "common/runtime/production/production_runtime.h"
#include "monitoring/metrics/blacksheep/states.h"
#include "monitoring/sight/module.h"
#include "monitoring/sight/recorder.h"

namespace kintsugi::blacksheep {
namespace {

constexpr sight::Site kRead{"chunkserver.read_chunk"}, kBlocks{"chunkserver.read_blocks"},
    kWrite{"chunkserver.write_chunk"};
constexpr std::array<std::string_view, 2> kNames{kRead.name, kWrite.name};

/// Runs with an activity log of the process.
class ActivityCounts : public ::testing::Test {
 protected:
  ActivityCounts() { runtime::process_activity_log = &log; }
  ~ActivityCounts() override { runtime::process_activity_log = nullptr; }

  States states() {
    StateReader reader;
    reader.feed(log.take());
    return reader.states();
  }
  uint64_t count_of(std::string_view name) const {
    uint64_t count = 0;
    for (const sight::PathTotals& totals : recorder.totals())
      count += totals.site->name == name ? totals.count : 0;
    return count;
  }

  runtime::ProductionRuntime production;
  sight::Recorder recorder{production.runtime().clock, 1};
  runtime::ActivityLog log{production.runtime().clock, "pid=1 program=tester", kNames};
};

TEST_F(ActivityCounts, AreThoseOfSight) {
  const Context root = recorder.root_context();
  for (int i = 0; i < 300; ++i) {
    sight::Task read{root, kRead};
    const sight::Module blocks{read.context(), kBlocks};
    const sight::Task write{root, kWrite};
    if (i % 100 == 0) read.set_code(Code::kCorrupt);
  }
  const States told = states();
  ASSERT_EQ(told.names, (std::vector<std::string>{"chunkserver.read_chunk", "chunkserver.write_chunk"}));
  EXPECT_EQ(told.unknown_stops + told.dropped + told.foreign_lines, 0u);
  EXPECT_EQ(told.lines, 1u + 2 * (count_of(kRead.name) + count_of(kWrite.name)));
  EXPECT_EQ(count_of(kRead.name), 300u);
  EXPECT_EQ(told.open_at_end.bottomRows(1).sum(), 0);
}

TEST_F(ActivityCounts, HaveExecutionsThatSightRecordsLightly) {
  const Context root = recorder.root_context();
  for (int i = 0; i < 300; ++i)
    const runtime::Span write{root, kWrite, {.task = true, .often = true}, std::source_location::current()};
  EXPECT_EQ(states().lines, 1u + 2 * 300u);
}

TEST_F(ActivityCounts, WhatHangsIsOpen) {
  const sight::Task read{recorder.root_context(), kRead};
  const States told = states();
  EXPECT_EQ(told.open_at_end(0, 0), 1);
}

TEST_F(ActivityCounts, WhatHasNoRecorderIsNotLogged) {
  {
    const sight::Task read{Context(), kRead};
  }
  EXPECT_TRUE(states().names.empty());
}

}  // namespace
}  // namespace kintsugi::blacksheep
