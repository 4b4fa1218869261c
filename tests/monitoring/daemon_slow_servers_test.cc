// Of which verdicts the metaserver is told.
#include <gtest/gtest.h>

#include "monitoring/daemon/alarms.h"
#include "monitoring/daemon/slow_servers.h"

namespace kintsugi::monitoring {
namespace {

const std::vector<model::ServerLife> kServers = {
    {.server_id = 11, .address = "10.0.0.1:7000", .name = "one"},
    {.server_id = 12, .address = "10.0.0.2:7000", .name = "two"}};

proto::Verdict verdict(proto::Verdict::Kind kind, double factor, uint64_t server,
                       const std::string& peer = {}) {
  proto::Verdict verdict;
  verdict.set_kind(kind);
  verdict.set_factor(factor);
  verdict.set_server_id(server);
  verdict.set_peer(peer);
  verdict.set_device("sdb");
  return verdict;
}

TEST(SlowServers, AreThoseWithASlowDiskAndThoseThatMostFindSlow) {
  const auto disk = slow_server(verdict(proto::Verdict::DEVICE, 3, 11), kServers);
  ASSERT_TRUE(disk);
  EXPECT_EQ(disk->server_id(), 11u);
  EXPECT_EQ(disk->part(), proto::SlowServer::DISK);
  proto::Verdict slow_to_others = verdict(proto::Verdict::SLOW, 4, 12);
  slow_to_others.add_servers_waiting("one");
  const auto links = slow_server(slow_to_others, kServers);
  ASSERT_TRUE(links);
  EXPECT_EQ(links->server_id(), 12u);
  EXPECT_EQ(links->part(), proto::SlowServer::LINK);
}

TEST(SlowServers, AreThoseThatDoNotWorkAtAll) {
  for (const auto& [kind, on_disk] : {std::pair{proto::Verdict::DEVICE, true},
                                      {proto::Verdict::PAUSES, true},
                                      {proto::Verdict::LOSSES, false},
                                      {proto::Verdict::UNREACHED, false},
                                      {proto::Verdict::ERRORS, false}}) {
    const auto slow = slow_server(verdict(kind, 0, 11), kServers);
    ASSERT_TRUE(slow) << kind;
    EXPECT_EQ(slow->part(), on_disk ? proto::SlowServer::DISK : proto::SlowServer::LINK) << kind;
    EXPECT_EQ(slow->name(), on_disk ? "sdb" : "") << kind;
  }
}

TEST(SlowServers, AreThoseThatCertainlyGetNoProcessor) {
  proto::Verdict starved = verdict(proto::Verdict::RESOURCE, 0, 11);
  EXPECT_FALSE(slow_server(starved, kServers)) << "it is not sure";
  starved.set_confidence(proto::Verdict::CERTAIN);
  const auto slow = slow_server(starved, kServers);
  ASSERT_TRUE(slow);
  EXPECT_EQ(slow->part(), proto::SlowServer::LINK);
  starved.set_region("memory");
  EXPECT_FALSE(slow_server(starved, kServers)) << "one that takes more memory serves as before";
}

TEST(SlowServers, ThatDoNotWorkAtAllComeBeforeTheSlowest) {
  const auto slow = slow_servers(
      std::vector{verdict(proto::Verdict::DEVICE, 90, 11), verdict(proto::Verdict::UNREACHED, 0, 12)},
      kServers);
  ASSERT_EQ(slow.size(), 2u);
  EXPECT_EQ(slow[0].server_id(), 12u);
}

TEST(SlowServers, AreNobodyElse) {
  EXPECT_FALSE(slow_server(verdict(proto::Verdict::DEVICE, 3, 99), kServers)) << "no chunkserver";
  EXPECT_FALSE(slow_server(verdict(proto::Verdict::LINK, 3, 11, "10.0.0.2:7000"), kServers))
      << "one link: which end?";
  EXPECT_FALSE(slow_server(verdict(proto::Verdict::LOSSES, 0, 11, "10.0.0.2:7000"), kServers))
      << "one link that loses packets: which end?";
  EXPECT_FALSE(slow_server(verdict(proto::Verdict::SLOW, 3, 11), kServers))
      << "a process, not its disk or links";
  proto::Verdict of_nobody = verdict(proto::Verdict::SLOW, 3, 99);
  of_nobody.add_servers_waiting("one");
  EXPECT_FALSE(slow_server(of_nobody, kServers)) << "no chunkserver";
}

TEST(SlowServers, ComeTheSlowestFirst) {
  const std::vector<proto::Verdict> verdicts = {verdict(proto::Verdict::DEVICE, 3, 11),
                                                verdict(proto::Verdict::STUCK, 0, 11),
                                                verdict(proto::Verdict::DEVICE, 9, 12)};
  const auto slow = slow_servers(verdicts, kServers);
  ASSERT_EQ(slow.size(), 2u);
  EXPECT_EQ(slow[0].server_id(), 12u);
  EXPECT_EQ(slow[1].server_id(), 11u);
}

TEST(SlowServers, AreKnownAlsoWhenAnotherDetectorFoundTheSameDiskFirst) {
  Alarms alarms;
  alarms.round({verdict(proto::Verdict::DEVICE, 0, 11), verdict(proto::Verdict::DEVICE, 3, 11)},
               TimePoint{} + std::chrono::seconds(1), {});
  ASSERT_EQ(alarms.standing().size(), 1u);
  EXPECT_TRUE(slow_server(alarms.standing().front(), kServers));
}

}  // namespace
}  // namespace kintsugi::monitoring
