// What the detectors say of recorded clusters (scripts/lab/metrics/record.py), so that a change which blinds one on real data,
// or makes it accuse the healthy, is seen without a cluster. `memory_leak`, `healthy` and `healthy_half_hour`: seed 12001, run
// 1, chunkserver-1. The others: seed 14001, a row a second (scripts/lab/metrics/cut.py). `healthy_restarted`, `socket_leak` (run
// 1) and `half_load` (run 0): chunkserver-2; `healthy_servers`: three servers and their activity logs. `healthy_five` and
// `sockets_of_one`: seed 14002, run 0, four rows a second of five servers, of which chunkserver-2 leaks.
// The logs of the previous release are those of its cluster (scripts/lab/previous_fixture.py).
#include <cstdlib>
#include <filesystem>
#include <set>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "monitoring/judging/report.h"
#include "monitoring/metrics/blacksheep/profile.h"
#include "monitoring/metrics/trace/coarser.h"
#include "monitoring/metrics/trace/files.h"

namespace kintsugi::judging {
namespace {

using metric_trace::Trace;
using Json = nlohmann::json;

constexpr int64_t kLeakBegan = 1'795'802'486'825'538'600;

/// A table of tests/monitoring/data.
Trace recorded(const std::string& name) {
  std::string directory = (std::filesystem::temp_directory_path() / "recorded.XXXXXX").string();
  EXPECT_NE(::mkdtemp(directory.data()), nullptr);
  const std::string table = directory + "/trace.csv";
  const std::string unpack =
      fmt::format("gzip -dc {}/tests/monitoring/data/{}.csv.gz > {}", KINTSUGI_SOURCE, name, table);
  EXPECT_EQ(std::system(unpack.c_str()), 0) << unpack;
  auto trace = metric_trace::read_trace(table);
  std::filesystem::remove_all(directory);
  EXPECT_TRUE(trace) << trace.error();
  return trace ? std::move(*trace) : Trace();
}

Json judged(std::string_view method, const std::string& healthy, const std::string& now = "memory_leak") {
  const auto report = judge(method, recorded(healthy), recorded(now));
  EXPECT_TRUE(report) << report.error();
  return report ? Json::parse(report->json) : Json::array();
}

const std::set<std::string> kOfMemory{"rss", "RssAnon", "VmData", "vsize", "minflt"};

TEST(Recorded, OrionNamesTheMemoryOfTheServerThatLeaks) {
  const Json found = judged("orion", "healthy");
  ASSERT_EQ(found.size(), 1U) << found;
  size_t guilty = 0;
  for (const Json& metric : found[0]["metrics"])
    guilty += kOfMemory.count(metric["name"]);
  EXPECT_GE(guilty, 2U) << found;
  EXPECT_GT(found[0]["to_ns"].get<int64_t>(), kLeakBegan);
}

TEST(Recorded, AuguryForeseesTheMemoryThatLeaks) {
  bool told = false;
  for (const Json& alarm : judged("augury", "healthy"))
    told = told || (alarm["t_ns"].get<int64_t>() > kLeakBegan && kOfMemory.contains(alarm["metric"]));
  EXPECT_TRUE(told);
}

TEST(Recorded, RamsSaysThatPageFaultsLeftTheLineOfTheServersOwnWork) {
  const Json found = judged("rams", "healthy_half_hour");
  ASSERT_FALSE(found.empty());
  EXPECT_EQ(found[0]["metric"], "minflt") << found;
  EXPECT_GT(found[0]["t_ns"].get<int64_t>(), kLeakBegan);
}

TEST(Recorded, TheTextsRamsDoesNotSeeIt) {
  EXPECT_EQ(judged("rams-text", "healthy")[0]["state"], "healthy");
}

constexpr int64_t kSocketsBegan = 1'795'837'762'038'696'800, kSocketsEnded = 1'795'838'036'906'034'000;

TEST(Recorded, SocketsThatAreNeverClosedAreForetoldInTheFirstHalfOfTheirTime) {
  const Json found = judged("leaks", "healthy_restarted", "socket_leak");
  ASSERT_FALSE(found.empty());
  EXPECT_EQ(found[0]["metric"], "fds") << found;
  EXPECT_GT(found[0]["t_ns"].get<int64_t>(), kSocketsBegan);
  EXPECT_LT(found[0]["t_ns"].get<int64_t>(), (kSocketsBegan + kSocketsEnded) / 2);
  EXPECT_GT(found[0]["rate"], 0.2) << "descriptors a second";
}

TEST(Recorded, OrionNamesTheDescriptorsThatAreNeverClosed) {
  const Json found = judged("orion", "healthy_restarted", "socket_leak");
  ASSERT_EQ(found.size(), 1U) << found;
  std::set<std::string> named;
  for (const Json& metric : found[0]["metrics"]) {
    named.insert(metric["name"]);
    named.insert(metric["aliases"].begin(), metric["aliases"].end());
  }
  EXPECT_TRUE(named.contains("fds") || named.contains("sockets_inuse")) << found;
}

TEST(Recorded, OrionNamesTheServerThatNeverClosesDescriptorsBeforeItsPeers) {
  const Json found = judged("orion", "healthy_five", "sockets_of_one");
  ASSERT_FALSE(found.empty());
  EXPECT_EQ(found[0]["server"], "chunkserver-2") << found;
  EXPECT_EQ(found[0]["metrics"][0]["name"], "fds") << found;
  EXPECT_GT(found[0]["metrics"][0]["score"], 8) << "deviations: 61 descriptors where there were 33";
}

TEST(Recorded, HalfOfTheLoadEndsNoResource) {
  EXPECT_TRUE(judged("leaks", "healthy_restarted", "half_load").empty());
}

TEST(Recorded, AServerThatWasRestartedHasNoAlarm) {
  Trace healthy = recorded("healthy_restarted");
  const Trace later = split(healthy, 400);  // it was restarted before and after that
  const auto report = judge("leaks", healthy, later);
  ASSERT_TRUE(report) << report.error();
  EXPECT_FALSE(report->odd) << report->json;
}

/// The activity log of a server of `healthy_servers`.
blacksheep::States states_of(const std::string& server) {
  std::string name = (std::filesystem::temp_directory_path() / "states.XXXXXX").string();
  EXPECT_NE(::mkdtemp(name.data()), nullptr);
  const std::string unpack =
      fmt::format("gzip -dc {}/tests/monitoring/data/healthy_servers.logs/{}.activity.log.gz > {}/log",
                  KINTSUGI_SOURCE, server, name);
  EXPECT_EQ(std::system(unpack.c_str()), 0) << unpack;
  auto states = blacksheep::read_states(name + "/log", std::chrono::seconds(1));
  std::filesystem::remove_all(name);
  EXPECT_TRUE(states) << states.error();
  return states ? std::move(*states) : blacksheep::States();
}

TEST(Recorded, BlackSheepFindsThatTheDiskIsReadWhenTheLogTellsOfReads) {
  const Trace trace = recorded("healthy_servers");
  std::vector<blacksheep::Run> runs;
  for (uint32_t i = 0; i < trace.header.sources.size(); ++i) {
    const auto states = states_of(trace.header.sources[i].name);
    for (const auto& part :
         metric_trace::stretches(metric_trace::series_of(trace, i), std::chrono::seconds(120)))
      if (auto run = blacksheep::run_of(part, states)) runs.push_back(std::move(*run));
  }
  const auto profile = blacksheep::learn("chunkserver", runs);
  ASSERT_TRUE(profile) << profile.error().to_string();
  bool reads = false;
  for (const blacksheep::Pair& pair : profile->pairs)
    reads = reads || (pair.metric == "read_bytes" && pair.state == "chunkserver.read_chunk");
  EXPECT_TRUE(reads) << profile->pairs.size() << " pairs";
}

TEST(Recorded, ActivityLogsOfThePreviousReleaseAreRead) {
  namespace fs = std::filesystem;
  std::string name = (fs::temp_directory_path() / "recorded.XXXXXX").string();
  const fs::path folder = ::mkdtemp(name.data());
  const std::string unpack = "tar -C " + name +
                             " --wildcards -xJf " KINTSUGI_SOURCE
                             "/tests/upgrade/previous.tar.xz '*.activity.log'";
  ASSERT_EQ(std::system(unpack.c_str()), 0);
  std::set<std::string> found;
  for (const auto& log : fs::directory_iterator(folder)) {
    SCOPED_TRACE(log.path());
    const auto states = blacksheep::read_states(log.path().string());
    ASSERT_TRUE(states) << states.error();
    EXPECT_GT(states->lines, 0u);
    EXPECT_EQ(states->foreign_lines + states->cut_lines + states->unknown_stops, 0u);
    EXPECT_EQ(states->begins.size(), 1u);
    if (!states->names.empty()) EXPECT_GT(states->overlapping.sum(), 0);
    found.insert(states->names.begin(), states->names.end());
  }
  for (const char* state : {"chunkserver.write_chunk", "chunkserver.write_small_chunk",
                            "chunkserver.block_report", "metaserver.commit_file"})
    EXPECT_TRUE(found.contains(state)) << state;
  fs::remove_all(folder);
}

}  // namespace
}  // namespace kintsugi::judging
