// Disks that hang, and when the wait for them is over.
#include "metaserver/cluster/hung_disks.h"

#include <gtest/gtest.h>

namespace kintsugi::metaserver {
namespace {

constexpr Duration kPatience = std::chrono::minutes(5);

proto::HeartbeatRequest heartbeat(proto::DiskState::Health health) {
  proto::HeartbeatRequest request;
  request.add_disk_states()->set_health(health);
  return request;
}

TEST(HungDisks, OneThatHangsAgainAndAgainIsGivenUpAsOneThatHangsAllTheTime) {
  HungDisks disks;
  TimePoint now{std::chrono::hours(1)};
  bool given_up = false;
  // It answers for ten seconds of each minute.
  for (int second = 0; second < 400 && !given_up; ++second) {
    now += std::chrono::seconds(1);
    const bool hangs = second % 60 < 50;
    (void)disks.told(heartbeat(hangs ? proto::DiskState::HUNG : proto::DiskState::SLOW), now, kPatience);
    given_up = disks.given_up(0);
  }
  EXPECT_TRUE(given_up);
}

TEST(HungDisks, OneThatHungOnceAndIsWellForLongBeginsAnew) {
  HungDisks disks;
  TimePoint now{std::chrono::hours(1)};
  (void)disks.told(heartbeat(proto::DiskState::HUNG), now, kPatience);
  for (int second = 0; second < 120; ++second) {
    now += std::chrono::seconds(1);
    EXPECT_FALSE(disks.told(heartbeat(proto::DiskState::WELL), now, kPatience));
  }
  now += kPatience;
  EXPECT_FALSE(disks.told(heartbeat(proto::DiskState::HUNG), now, kPatience));
  EXPECT_FALSE(disks.given_up(0));
}

}  // namespace
}  // namespace kintsugi::metaserver
