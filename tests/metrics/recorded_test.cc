// What the detectors say of a recorded leak of memory (scripts/lab/metrics/record.py, seed 12001, run 1, chunkserver-1), so
// that a change which blinds one on real data is seen without a cluster.
#include <cstdlib>
#include <filesystem>
#include <set>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "monitoring/judging/report.h"
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

Json judged(std::string_view method, const std::string& healthy) {
  const auto report = judge(method, recorded(healthy), recorded("memory_leak"));
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

}  // namespace
}  // namespace kintsugi::judging
