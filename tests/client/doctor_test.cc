// kintsugi doctor: what never gets into its file, and what it says of answers that are not as they should be.
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/cli/archive.h"
#include "client/cli/cluster_findings.h"

namespace kintsugi::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(Redaction, TakesOutWhatItWasToldAndWhatLooksLikeASecret) {
  Redaction redaction;
  redaction.learn("correct horse");
  redaction.learn("a");
  const std::string hex(64, 'e');
  EXPECT_EQ(redaction.without_secrets("say correct horse, and correct horse"),
            "say [removed], and [removed]");
  EXPECT_EQ(redaction.without_secrets("secret " + hex + "\nnext"), "secret [removed]\nnext");
  EXPECT_EQ(redaction.without_secrets(hex.substr(1) + " is a number"), hex.substr(1) + " is a number");
  EXPECT_EQ(redaction.without_secrets("trace_collector = \"http://user:word@host:1/x\" # https://host/a@b"),
            "trace_collector = \"http://[removed]@host:1/x\" # https://host/a@b");
  EXPECT_EQ(redaction.without_secrets("a banana"), "a banana") << "what is short is in every text";
}

TEST(Redaction, TakesOutPrivateKeysAndLeavesCertificates) {
  const std::string certificate = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
  const auto key = [](const std::string& kind) {
    return "-----BEGIN " + kind + "-----\nMIIB\n-----END " + kind + "-----\n";
  };
  const Redaction redaction;
  const std::string cleaned =
      redaction.without_secrets(key("PRIVATE KEY") + certificate + key("EC PRIVATE KEY") + "after");
  EXPECT_THAT(cleaned, testing::Not(HasSubstr("MIIB")));
  EXPECT_THAT(cleaned, HasSubstr(certificate));
  EXPECT_THAT(cleaned, HasSubstr("after"));
  EXPECT_THAT(redaction.without_secrets("-----BEGIN PRIVATE KEY-----\nMIIB"), testing::Not(HasSubstr("MIIB")))
      << "the end of the key was cut off";
}

TEST(Samples, AreReadWithTheirLabels) {
  const auto found = samples(
      "# HELP a_total Things\na_total 3\nb 1\na_total{x=\"1\",y=\"q\\\"},{\"} 2.5e3\na_total{x=\"\na_totals "
      "4\n",
      {"a_total"});
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].value, 3);
  EXPECT_EQ(found[1].value, 2500);
  EXPECT_THAT(found[1].labels, ElementsAre(testing::Pair("x", "1"), testing::Pair("y", "q\"},{")));
}

/// What is said of daemons, those of which nothing is wrong left out: "problem store-1: ...".
std::vector<std::string> judged(const std::vector<DaemonPages>& daemons) {
  std::vector<Finding> findings;
  judge_daemons(daemons, findings);
  std::vector<std::string> said;
  for (const Finding& finding : findings)
    if (finding.verdict != Verdict::kGood)
      said.push_back((finding.verdict == Verdict::kProblem ? "problem " : "warning ") + finding.on + ": " +
                     finding.says);
  return said;
}

DaemonPages daemon(const std::string& instance, const std::string& metrics) {
  return {.daemon = "chunkserver",
          .instance = instance,
          .address = "10.0.0.3:9603",
          .pages = {{"/metrics", metrics}}};
}

std::string build(const std::string& version) {
  return "kintsugi_build_info{commit=\"c\",compiler=\"clang 19.1.7\",version=\"" + version + "\"} 1\n";
}

TEST(Doctor, SaysNothingOfDaemonsThatAreWell) {
  EXPECT_THAT(
      judged({daemon("store-1", build("0.2.0") +
                                    "kintsugi_stripes_degraded 0\nkintsugi_repair_managers 1\n"
                                    "kintsugi_certificate_expires_seconds{certificate=\"own\"} 9e6\n"),
              daemon("store-2", build("0.2.0"))}),
      IsEmpty());
}

TEST(Doctor, NamesDaemonsThatRunAnotherProgram) {
  EXPECT_THAT(judged({daemon("store-1", build("0.2.0")), daemon("store-2", build("0.3.0")),
                      daemon("store-3", build("0.2.0"))}),
              ElementsAre("warning the cluster: daemons run different programs: 0.2.0 of c on store-1 "
                          "store-3, 0.3.0 of c on store-2"));
}

TEST(Doctor, NamesADaemonThatDoesNotAnswer) {
  DaemonPages dead = daemon("store-1", "");
  dead.pages.clear();
  dead.reached = {Code::kUnavailable, "connection refused"};
  EXPECT_THAT(judged({dead}),
              ElementsAre("problem store-1: it does not answer at 10.0.0.3:9603: connection refused"));
  dead.reached = {Code::kNotFound, "the answer is \"HTTP/1.1 503 Service Unavailable\": starting"};
  EXPECT_THAT(judged({dead}),
              ElementsAre("problem store-1: it shows no metrics at 10.0.0.3:9603: the answer is "
                          "\"HTTP/1.1 503 Service Unavailable\": starting"));
}

TEST(Doctor, SeesAClockThatDiffers) {
  DaemonPages late = daemon("store-1", "");
  late.clock_ahead = -2.5;
  DaemonPages right = daemon("store-2", "");
  right.clock_ahead = 1.5;
  EXPECT_THAT(judged({late, right}), ElementsAre("problem store-1: its clock is 2.5 s behind this host's"));
}

TEST(Doctor, SeesCertificatesThatExpireOrHave) {
  EXPECT_THAT(
      judged({daemon("store-1",
                     "kintsugi_certificate_expires_seconds{certificate=\"own\"} 864000\n"
                     "kintsugi_certificate_expires_seconds{certificate=\"authority\"} -1\n")}),
      ElementsAre("warning store-1: its certificate expires in 10 days: kintsugi cluster init --renew",
                  "problem store-1: its authority's certificate has expired: kintsugi cluster init --renew"));
}

TEST(Doctor, SeesDataThatIsNotWholeAndAMetaserverWithoutRoomOrRepairs) {
  EXPECT_THAT(judged({daemon("metaserver",
                             "kintsugi_stripes_unreadable 2\nkintsugi_stripes_degraded 3\n"
                             "kintsugi_repair_managers 0\nkintsugi_metaserver_disk_free_bytes 1048576\n")}),
              ElementsAre("problem metaserver: 2 stripes cannot be read: start the servers that are dead",
                          "warning metaserver: 3 stripes lack a chunk, and are repaired",
                          "problem metaserver: no repair manager is registered: nothing is repaired",
                          "problem metaserver: its disk is nearly full: 1.0 MiB free"));
}

TEST(Doctor, DoesNotMissWhoIsInMaintenance) {
  DaemonPages metaserver{.daemon = "metaserver", .instance = "metaserver", .address = "10.0.0.1:7001"};
  metaserver.pages["/metrics"] = "kintsugi_maintenance_seconds{chunkserver=\"store-2\"} 600\n";
  std::vector<DaemonPages> daemons{metaserver};
  for (const char* name : {"store-1", "store-2"})
    daemons.push_back({.daemon = "chunkserver",
                       .instance = name,
                       .address = "10.0.0.2:7101",
                       .reached = {Code::kUnavailable, "connection refused"}});
  EXPECT_THAT(judged(daemons),
              ElementsAre("problem store-1: it does not answer at 10.0.0.2:7101: connection refused"));
}

TEST(Doctor, SeesServersAndDisksThatAreNotWell) {
  proto::ListServersResponse servers;
  const auto add = [&](uint32_t number, const std::string& name) {
    proto::ServerState& server = *servers.add_servers();
    server.set_number(number);
    server.set_name(name);
    return &server;
  };
  proto::ServerState* dead = add(1, "store-1");
  dead->set_liveness(proto::ServerState::DEAD);
  dead->set_seconds_since_heartbeat(30);
  proto::ServerState* sick = add(2, "store-2");
  sick->set_failed_disks(1);
  proto::DiskState* full = sick->add_disk_states();
  full->set_path("/data/1");
  full->set_total_bytes(100 << 20);
  full->set_free_bytes(9 << 20);
  proto::DiskState* slow = sick->add_disk_states();
  slow->set_path("/data/2");
  slow->set_health(proto::DiskState::SLOW);
  slow->set_reason("it answers late");
  add(3, "store-3");
  std::vector<Finding> findings;
  judge_servers(servers, findings);
  std::vector<std::string> said;
  for (const Finding& finding : findings)
    said.push_back(finding.on + ": " + finding.says);
  EXPECT_THAT(
      said, ElementsAre("store-1: it is dead: it last said that it lives 30 s ago", "store-2: 1 disk failed",
                        "store-2: disk /data/1 is nearly full: 9.0 MiB free",
                        "store-2: disk /data/2 is not well: it answers late"));
}

}  // namespace
}  // namespace kintsugi::cli
