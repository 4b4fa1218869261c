// Times at which a recording begins, as operators write them.
#include "client/cli/trace_times.h"

#include <cstdlib>
#include <ctime>

#include <gtest/gtest.h>

namespace kintsugi::cli {
namespace {

/// 2026-11-29 13:00:00 in UTC.
constexpr int64_t kNow = 1'795'957'200;

struct TraceTimes : ::testing::Test {
  TraceTimes() {
    ::setenv("TZ", "UTC0", 1);
    ::tzset();
  }
  ~TraceTimes() override {
    ::unsetenv("TZ");
    ::tzset();
  }
};

TEST_F(TraceTimes, AreTheNextOnesByTheClockOfThisHost) {
  EXPECT_EQ(*after_time("at:13:01", kNow), "after:60s");
  EXPECT_EQ(*after_time("at:13:00:05", kNow), "after:5s");
  EXPECT_EQ(*after_time("at:13:00", kNow), "after:86400s") << "it is over: tomorrow";
  EXPECT_EQ(*after_time("at:03:00", kNow), "after:50400s");
  EXPECT_EQ(time_of_day(kNow * 1000 + 7), "2026-11-29 13:00:00.007");
}

TEST_F(TraceTimes, AreRefusedWhenTheyAreNone) {
  for (const char* const wrong : {"at:", "at:13", "at:1:00", "at:24:00", "at:13:60", "at:13:00:60",
                                  "at:13:00:", "at:13:00:00Z", "at:13.00"})
    EXPECT_EQ(after_time(wrong, kNow).error().code(), Code::kInvalidArgument) << wrong;
}

TEST_F(TraceTimes, OfARecordingAreInTheRequest) {
  AttachArguments arguments{
      .where = "1", .start = "slow:ReadChunk:50ms", .lasts = "1h", .recorded_for = "5s"};
  auto request = attach_request(arguments);
  ASSERT_TRUE(request) << request.error();
  EXPECT_EQ(request->start(), "slow:ReadChunk:50ms");
  EXPECT_EQ(request->limit_ms(), 3'600'000);
  EXPECT_EQ(request->recorded_for_ms(), 5000);
  // Who waits for a verdict would hear of it when that has come.
  arguments.lasts = "25h";
  EXPECT_EQ(attach_request(arguments).error().message(),
            "a recording lasts at most a day, with the wait for it");
  arguments.lasts = "24h";
  EXPECT_TRUE(attach_request(arguments));
  arguments.recorded_for = "soon";
  EXPECT_EQ(attach_request(arguments).error().code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace kintsugi::cli
