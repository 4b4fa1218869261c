#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/monitoring/report_rig.h"

namespace kintsugi::progress {
namespace {

using proto::Verdict;
using testing::IsEmpty;
using testing::SizeIs;

/// Four servers that read from a disk each, and a client that waits for all of them; every ten seconds their totals are reported.
struct SlowRig : ReportRig {
  static constexpr int kServers = 4;
  std::mt19937_64 random{11};
  std::map<int, double> disk_ms;
  uint64_t reader = client();
  std::vector<Verdict> verdicts;

  void waited(uint64_t process, const std::string& site, proto::WaitKind wait, const std::string& target,
              double ms, uint64_t count) {
    usual(process, site, wait, 0);  // enters the state
    uint32_t state = 0;
    for (const proto::SightState& known : report(process).new_states())
      if (known.role_path() == hash_name(site) && known.wait() == wait) state = known.state();
    proto::SightWaitTotal* total = nullptr;
    for (proto::SightWaitTotal& known : *report(process).mutable_waits())
      if (known.state() == state && known.target() == target) total = &known;
    if (total == nullptr) total = report(process).add_waits();
    total->set_state(state);
    total->set_target(target);
    total->set_count(total->count() + count);
    const double noise = 0.8 + 0.4 * static_cast<double>(random() % 1000) / 1000;
    total->set_ns(total->ns() + static_cast<uint64_t>(ms * 1e6 * static_cast<double>(count) * noise));
  }
  void windows(int count, uint64_t load = 100) {
    for (int window = 0; window < count; window++) {
      for (int i = 1; i <= kServers; i++) {
        const double ms = disk_ms.contains(i) ? disk_ms[i] : 5;
        waited(server(i), "chunkserver.read_chunk", proto::WAIT_DISK, "sda", ms, load);
        waited(reader, "client.fetch_chunk", proto::WAIT_RECEIVE, address(i), ms + 1, load);
      }
      verdicts = engine().diagnose(snapshot());
      sleep(9s);
    }
  }
};

TEST(Slowdowns, NamesTheDiskThatMakesOthersWaitAndNotItsServer) {
  SlowRig rig;
  rig.windows(12);
  EXPECT_THAT(rig.verdicts, IsEmpty());
  rig.disk_ms[3] = 25;
  rig.windows(2);
  EXPECT_THAT(rig.verdicts, IsEmpty());  // not yet three windows
  rig.windows(2);
  ASSERT_THAT(rig.verdicts, SizeIs(1));
  EXPECT_EQ(rig.verdicts[0].kind(), Verdict::SLOW);
  EXPECT_EQ(rig.verdicts[0].server(), "server 3");
  EXPECT_EQ(rig.verdicts[0].device(), "sda");
  EXPECT_NEAR(rig.verdicts[0].factor(), 5, 1.5);
  rig.disk_ms.clear();
  rig.windows(1);
  EXPECT_THAT(rig.verdicts, IsEmpty());
}

TEST(Slowdowns, ASlowWindowThatNothingFollowsCountsOnce) {
  SlowRig rig;
  rig.windows(12);
  rig.disk_ms[3] = 25;
  rig.windows(1);
  // No new totals come: what was slow is over, or nobody asks for it any more.
  for (int i = 0; i < 8; i++) {
    rig.sleep(9s);
    EXPECT_THAT(rig.engine().diagnose(rig.snapshot()), IsEmpty()) << i;
  }
}

TEST(Slowdowns, WhoStoodStillIsNotCalledSlowForTheWindowsInWhichItDid) {
  SlowRig rig;
  rig.windows(12);
  rig.disk_ms[3] = 25;  // those who waited tell of it when the wait is over
  const RigTask stuck = rig.task(rig.server(3), "chunkserver.write_chunk");
  rig.windows(2);
  ASSERT_THAT(rig.verdicts, SizeIs(1));
  EXPECT_EQ(rig.verdicts[0].kind(), Verdict::STUCK);
  rig.moves(stuck);
  rig.windows(3);
  EXPECT_THAT(rig.verdicts, IsEmpty());
  rig.windows(3);
  ASSERT_THAT(rig.verdicts, SizeIs(1));  // it really is slow
  EXPECT_EQ(rig.verdicts[0].kind(), Verdict::SLOW);
}

TEST(Slowdowns, WhatIsSlowEverywhereIsTheLoad) {
  SlowRig rig;
  rig.windows(12);
  for (int i = 1; i <= SlowRig::kServers; i++)
    rig.disk_ms[i] = 25;
  rig.windows(6);
  EXPECT_THAT(rig.verdicts, IsEmpty());
}

TEST(Slowdowns, MoreWorkOfTheUsualKindIsNotSlow) {
  SlowRig rig;
  rig.windows(12);
  rig.windows(6, 1'000);
  EXPECT_THAT(rig.verdicts, IsEmpty());
}

TEST(Slowdowns, NothingIsSlowBeforeAnythingIsUsual) {
  SlowRig rig;
  rig.disk_ms[3] = 25;
  rig.windows(4);
  rig.disk_ms[3] = 200;
  rig.windows(2);
  EXPECT_THAT(rig.verdicts, IsEmpty());
}

}  // namespace
}  // namespace kintsugi::progress
