#include "common/runtime/backoff.h"

#include <chrono>

#include <gtest/gtest.h>

namespace kintsugi::runtime {
namespace {

using namespace std::chrono_literals;

/// Draws one number for ever.
class OneNumber final : public Random {
 public:
  explicit OneNumber(uint64_t number) : number_(number) {}
  uint64_t next() override { return number_; }
  void fill(std::span<std::byte>) override {}

 private:
  uint64_t number_;
};

TEST(Backoff, PausesDoubleUpToTheirBoundAndBeginAnewAfterASuccess) {
  OneNumber lowest(0);
  Backoff backoff(lowest, 100ms, 350ms);
  for (const Duration expected : {Duration(100ms), Duration(200ms), Duration(350ms), Duration(350ms)})
    EXPECT_EQ(backoff.next(), expected);
  backoff.reset();
  EXPECT_EQ(backoff.next(), 100ms);
}

TEST(Backoff, ARandomPartOfAPauseIsLeftOutButNeverAQuarter) {
  OneNumber highest(UINT64_MAX);
  Backoff backoff(highest, 100ms, 1s);
  for (const Duration whole : {Duration(100ms), Duration(200ms), Duration(400ms)}) {
    const Duration pause = backoff.next();
    EXPECT_LT(pause, whole);
    EXPECT_GT(pause, whole - whole / Backoff::kJitterPart);
  }
  Backoff shortest(highest, Duration(1), Duration(1));
  EXPECT_EQ(shortest.next(), Duration(1));
}

TEST(Backoff, ThereIsNoPauseThatEndsTooLate) {
  OneNumber lowest(0);
  Backoff backoff(lowest, 100ms, 1s);
  const TimePoint now{10s};
  EXPECT_EQ(backoff.next_before(now, now + 101ms), Duration(100ms));
  EXPECT_EQ(backoff.next_before(now, now + 200ms), std::nullopt);
  EXPECT_EQ(backoff.next_before(now, now - 1s), std::nullopt);
  EXPECT_EQ(backoff.next_before(now, TimePoint::max()), Duration(200ms)) << "nothing was used up meanwhile";
}

}  // namespace
}  // namespace kintsugi::runtime
