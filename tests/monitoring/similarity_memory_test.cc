// Who takes more and more memory while its peers do not.
#include <functional>

#include <gtest/gtest.h>

#include "common/base/draws.h"
#include "monitoring/similarity/memory_watch.h"

namespace kintsugi::similarity {
namespace {

constexpr uint64_t kMiB = 1 << 20;

/// KeptServers of one kind whose memory goes up and down a little.
struct KeptServers {
  explicit KeptServers(size_t count) : bytes(count, 200 * kMiB) {}
  MemoryWatch watch;
  std::vector<uint64_t> bytes;
  Draws draws{3};
  TimePoint now{1h};

  void seconds(int count, const std::function<void()>& each = [] {}) {
    for (int i = 0; i < count; ++i) {
      now += 1s;
      each();
      std::vector<MemoryUse> uses;
      for (size_t s = 0; s < bytes.size(); ++s)
        uses.push_back({.name = "server " + std::to_string(s + 1),
                        .server_id = s + 1,
                        .process = 50 + s,
                        .kind = "chunkserver",
                        .bytes = bytes[s] + draws.below(20 * kMiB)});
      watch.look(uses, now);
    }
  }
  std::vector<proto::Verdict> alarms() const { return watch.alarms(now); }
};

TEST(MemoryWatch, NamesWhoLeaksAndTakesItBackWhenItIsGivenBack) {
  KeptServers servers(5);
  servers.seconds(300);
  EXPECT_TRUE(servers.alarms().empty());
  servers.seconds(60, [&] { servers.bytes[2] += 16 * kMiB; });
  ASSERT_EQ(servers.alarms().size(), 1u);
  const proto::Verdict alarm = servers.alarms()[0];
  EXPECT_EQ(alarm.kind(), proto::Verdict::RESOURCE);
  EXPECT_EQ(alarm.server(), "server 3");
  EXPECT_EQ(alarm.region(), "memory");
  EXPECT_EQ(alarm.confidence(), proto::Verdict::LIKELY);
  EXPECT_GT(alarm.factor(), 3);
  servers.bytes[2] = 200 * kMiB;
  servers.seconds(10);
  EXPECT_TRUE(servers.alarms().empty());
}

TEST(MemoryWatch, WhatAllTakeIsTheLoadAndWhatIsSmallIsNothing) {
  KeptServers servers(5);
  servers.seconds(100);
  servers.seconds(60, [&] {
    for (uint64_t& bytes : servers.bytes)
      bytes += 16 * kMiB;  // caches fill
  });
  EXPECT_TRUE(servers.alarms().empty());
  servers.bytes[1] += 200 * kMiB;
  servers.seconds(60);
  EXPECT_TRUE(servers.alarms().empty());
}

TEST(MemoryWatch, WhatDoesNotGrowAnyMoreIsWhatItNeedsNow) {
  KeptServers servers(5);
  servers.seconds(100);
  servers.bytes[4] = 900 * kMiB;
  servers.seconds(60);
  EXPECT_EQ(servers.alarms().size(), 1u);
  servers.seconds(620);
  EXPECT_TRUE(servers.alarms().empty());
  servers.bytes[4] = 1800 * kMiB;  // it leaks after all
  servers.seconds(60);
  EXPECT_EQ(servers.alarms().size(), 1u);
}

TEST(MemoryWatch, OneThatHasNoPeersIsUnsureAndNeedsMore) {
  KeptServers alone(1);
  alone.seconds(100);
  alone.bytes[0] += 400 * kMiB;
  alone.seconds(60);
  EXPECT_TRUE(alone.alarms().empty());
  alone.bytes[0] += 400 * kMiB;
  alone.seconds(60);
  ASSERT_EQ(alone.alarms().size(), 1u);
  EXPECT_EQ(alone.alarms()[0].confidence(), proto::Verdict::UNSURE);
}

TEST(MemoryWatch, WhoHasJustBegunOrSaysNothingIsNotJudged) {
  KeptServers servers(5);
  servers.seconds(20, [&] { servers.bytes[0] += 40 * kMiB; });
  EXPECT_TRUE(servers.alarms().empty());
  MemoryWatch silent;
  for (int i = 0; i < 100; ++i)
    silent.look({{.name = "server 1", .process = 1, .kind = "chunkserver"}},
                TimePoint{} + std::chrono::seconds(i));
  EXPECT_TRUE(silent.alarms(TimePoint{} + 100s).empty());
  MemoryWatch garbage;
  for (int i = 0; i < 100; ++i)
    garbage.look({{.name = "server 1", .process = 1, .kind = "chunkserver", .bytes = i < 50 ? 1000 : ~0ULL}},
                 TimePoint{} + std::chrono::seconds(i));
  EXPECT_TRUE(garbage.alarms(TimePoint{} + 100s).empty());
}

}  // namespace
}  // namespace kintsugi::similarity
