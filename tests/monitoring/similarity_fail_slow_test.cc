#include <gtest/gtest.h>

#include "common/base/draws.h"
#include "monitoring/similarity/fail_slow.h"

namespace kintsugi::similarity {
namespace {

/// Servers whose disks and links serve requests; counters as reports have them, once a second.
class Cluster {
 public:
  struct Device {
    size_t server;
    std::string name;
    bool peer;
    double base_ns, rate = 60, factor = 1, size = 64 * 1024;
    uint64_t completed = 0, bytes = 0, busy = 0;
  };

  explicit Cluster(size_t servers, uint64_t seed) : servers_(servers), draws_(seed) {
    for (size_t s = 0; s < servers; ++s)
      devices.push_back({s, "disk-0", false, 200e3});
  }
  void add_links() {
    for (size_t s = 0; s < servers_; ++s)
      for (size_t t = 0; t < servers_; ++t)
        if (s != t) devices.push_back({s, fmt::format("10.0.0.{}:7000", t), true, 500e3});
  }
  /// A second passes. Load goes up and down for all alike; each second has noise of its own, and some seconds are bad.
  void second() {
    now_ += std::chrono::seconds(1);
    ++seconds_;
    const double load = 1 + 0.8 * std::sin(seconds_ / 40.0);
    for (Device& device : devices) {
      const double requests = std::max(0.0, device.rate * load * std::exp(0.3 * draws_.normal()));
      double service = device.base_ns * device.factor * (0.5 + 0.5 * device.size / 65536) *
                       std::pow(std::max(1.0, load), 0.7) * std::exp(0.25 * draws_.normal());
      if (draws_.uniform() < 0.03) service *= 1 + 4 * draws_.exponential();  // a hiccup
      device.completed += static_cast<uint64_t>(requests);
      device.bytes += static_cast<uint64_t>(requests) * static_cast<uint64_t>(device.size);
      device.busy += static_cast<uint64_t>(requests) * static_cast<uint64_t>(service);
    }
    for (size_t s = 0; s < servers_; ++s) {
      std::vector<proto::SightDevice> reported;
      for (const Device& device : devices) {
        if (device.server != s) continue;
        proto::SightDevice one;
        one.set_name(device.name);
        one.set_peer(device.peer);
        one.set_completed(device.completed);
        one.set_bytes_in(device.bytes);
        one.set_busy_ns(device.busy);
        reported.push_back(one);
      }
      std::vector<const proto::SightDevice*> pointers;
      for (const auto& one : reported)
        pointers.push_back(&one);
      watch.add({.name = fmt::format("server {}", s + 1),
                 .server_id = s + 1,
                 .process = 100 + s + 1000 * restarts,
                 .process_kind = "chunkserver"},
                pointers, now_);
    }
    watch.step(now_);
  }
  std::vector<proto::Verdict> alarms() const { return watch.alarms(now_); }
  /// Seconds until the first alarm, at most `limit`.
  int seconds_to_alarm(int limit) {
    for (int s = 1; s <= limit; ++s) {
      second();
      if (!alarms().empty()) return s;
    }
    return limit + 1;
  }

  FailSlow watch;
  std::vector<Device> devices;
  uint64_t restarts = 0;

 private:
  size_t servers_;
  Draws draws_;
  TimePoint now_{};
  double seconds_ = 0;
};

TEST(FailSlow, ADiskThreeTimesSlowerIsNamedWithinAMinuteAndTakenBack) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Cluster cluster(10, seed);
    for (int s = 0; s < 180; ++s)
      cluster.second();
    ASSERT_TRUE(cluster.alarms().empty()) << seed;
    cluster.devices[6].factor = 3;
    ASSERT_LE(cluster.seconds_to_alarm(60), 60) << seed;
    const auto alarms = cluster.alarms();
    ASSERT_EQ(alarms.size(), 1u);
    EXPECT_EQ(alarms[0].kind(), proto::Verdict::DEVICE);
    EXPECT_EQ(alarms[0].server(), "server 7");
    EXPECT_EQ(alarms[0].device(), "disk-0");
    EXPECT_GT(alarms[0].factor(), 1.8);
    for (int s = 0; s < 200; ++s)
      cluster.second();
    ASSERT_EQ(cluster.alarms().size(), 1u) << "it stands as long as the disk is slow, seed " << seed;
    cluster.devices[6].factor = 1;
    for (int s = 0; s < 90; ++s)
      cluster.second();
    EXPECT_TRUE(cluster.alarms().empty()) << seed;
  }
}

std::string told(const proto::Verdict& verdict) {
  std::string out = fmt::format("{} {} {} {}", proto::Verdict::Kind_Name(verdict.kind()), verdict.server(),
                                verdict.device(), verdict.peer());
  for (const auto& why : verdict.why())
    out += "; " + why;
  return out;
}

TEST(FailSlow, AHealthyClusterOfDifferentDisksRaisesNothingInHours) {
  for (uint64_t seed = 1; seed <= 2; ++seed) {
    Cluster cluster(6, seed);
    cluster.add_links();
    for (size_t d = 0; d < 3; ++d)
      cluster.devices[d].base_ns = 8e6;  // three of the disks are rotating ones
    Draws draws(seed);
    for (int s = 0; s < 3000; ++s) {
      cluster.second();
      if (s % 600 ==
          300) {  // other sizes of requests, for a while, and a server that has three times as much to do
        for (auto& device : cluster.devices)
          device.size = draws.uniform() < 0.5 ? 65536 : 16384;
        const size_t hot = draws.below(6);
        for (auto& device : cluster.devices)
          device.rate = device.server == hot ? 180 : 60;
        for (auto& device : cluster.devices)
          device.factor = device.server == hot && !device.peer ? 1.5 : 1;  // which its disk feels
      }
      if (s % 1800 == 1700) ++cluster.restarts;
      ASSERT_TRUE(cluster.alarms().empty())
          << "seed " << seed << " second " << s << " " << told(cluster.alarms()[0]);
    }
  }
}

TEST(FailSlow, ALinkIsALinkAndAServerIsAServer) {
  Cluster cluster(6, 3);
  cluster.add_links();
  for (int s = 0; s < 120; ++s)
    cluster.second();
  for (auto& device : cluster.devices)
    if (device.peer && device.server == 1 && device.name == "10.0.0.4:7000") device.factor = 4;
  ASSERT_LE(cluster.seconds_to_alarm(60), 60);
  auto alarms = cluster.alarms();
  ASSERT_EQ(alarms.size(), 1u);
  EXPECT_EQ(alarms[0].kind(), proto::Verdict::LINK);
  EXPECT_EQ(alarms[0].server(), "server 2");
  EXPECT_EQ(alarms[0].peer(), "10.0.0.4:7000");

  for (auto& device : cluster.devices)
    if (device.peer && device.name == "10.0.0.4:7000") device.factor = 4;
  for (int s = 0; s < 60; ++s)
    cluster.second();
  alarms = cluster.alarms();
  ASSERT_EQ(alarms.size(), 1u);
  EXPECT_EQ(alarms[0].kind(), proto::Verdict::SLOW);
  EXPECT_EQ(alarms[0].peer(), "10.0.0.4:7000");
  EXPECT_EQ(alarms[0].servers_waiting_size(), 5);
}

TEST(FailSlow, AServerAllOfWhoseLinksAreSlowIsNamedWithoutThosePeers) {
  // Its only link is to a server that others reach as well as ever.
  Cluster cluster(6, 4);
  cluster.add_links();
  std::erase_if(cluster.devices, [](const auto& device) {
    return device.peer && device.server == 1 && device.name != "10.0.0.4:7000";
  });
  for (int s = 0; s < 120; ++s)
    cluster.second();
  for (auto& device : cluster.devices)
    if (device.peer && device.server == 1) device.factor = 4;
  ASSERT_LE(cluster.seconds_to_alarm(60), 60);
  const auto alarms = cluster.alarms();
  ASSERT_EQ(alarms.size(), 1u);
  EXPECT_EQ(alarms[0].kind(), proto::Verdict::SLOW);
  EXPECT_EQ(alarms[0].server(), "server 2");
  EXPECT_EQ(alarms[0].servers_waiting_size(), 0) << "nobody is told to go around it";
}

TEST(FailSlow, WithoutPeersOrRequestsNothingIsSaid) {
  Cluster few(3, 1);
  for (int s = 0; s < 120; ++s)
    few.second();
  few.devices[0].factor = 5;
  EXPECT_EQ(few.seconds_to_alarm(120), 121) << "two others are no majority";
  Cluster idle(8, 1);
  for (auto& device : idle.devices)
    device.rate = 0.1;
  for (int s = 0; s < 600; ++s)
    idle.second();
  idle.devices[0].factor = 5;
  EXPECT_EQ(idle.seconds_to_alarm(300), 301);
}

TEST(FailSlow, ADiskThatOthersHaveLeftIsStillNamed) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    Cluster cluster(10, seed);
    for (int s = 0; s < 180; ++s)
      cluster.second();
    cluster.devices[6].factor = 5;
    cluster.devices[6].rate = 3;  // now and then somebody looks whether it is well again
    EXPECT_LE(cluster.seconds_to_alarm(60), 60) << seed;
  }
}

TEST(FailSlow, ADiskThatIsAskedForNothingMayBeWellAgainAndThenIsTakenBackEverLater) {
  Cluster cluster(10, 4);
  for (int s = 0; s < 180; ++s)
    cluster.second();
  std::vector<int> stood;
  for (int time = 0; time < 3; ++time) {
    cluster.devices[6].rate = 60;
    cluster.devices[6].factor = 4;
    ASSERT_LE(cluster.seconds_to_alarm(90), 90) << time;
    cluster.devices[6].rate = 0;  // everybody goes around it
    int seconds = 0;
    for (; !cluster.alarms().empty() && seconds < 3600; ++seconds)
      cluster.second();
    stood.push_back(seconds);
  }
  EXPECT_GT(stood[0], 120);
  EXPECT_LT(stood[0], 240);
  EXPECT_GT(stood[1], stood[0] * 3 / 2);
  EXPECT_GT(stood[2], stood[1] * 3 / 2);
}

TEST(FailSlow, ABadReporterIsBounded) {
  FailSlow watch(FailSlowSettings{.most_devices = 10});
  proto::SightDevice device;
  for (int i = 0; i < 100; ++i) {
    device.set_name(std::to_string(i));
    device.set_completed(i % 2 == 0 ? ~0ull : 0);
    device.set_busy_ns(i % 3 == 0 ? ~0ull : 0);
    const std::vector<const proto::SightDevice*> one{&device};
    watch.add({.name = "server 1", .process = 1}, one, TimePoint{} + std::chrono::seconds(i));
    watch.step(TimePoint{} + std::chrono::seconds(i));
  }
  EXPECT_EQ(watch.devices(), 10u);
  EXPECT_TRUE(watch.alarms(TimePoint{} + std::chrono::seconds(100)).empty());
}

}  // namespace
}  // namespace kintsugi::similarity
