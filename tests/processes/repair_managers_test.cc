// Repair managers as processes of their own; one is killed in the middle of its repairs.
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include <nlohmann/json.hpp>
#include <signal.h>

#include "tests/processes/process_cluster.h"

namespace kintsugi::processes {
namespace {

using std::chrono::seconds;
using Json = nlohmann::json;

class RepairManagers : public ProcessCluster {
 protected:
  static std::string name(size_t manager) { return "repair-manager-" + std::to_string(manager + 1); }
  std::string log_of(size_t manager) const { return cluster_directory() + "/log/" + name(manager) + ".log"; }
  bool has_shards(size_t manager) const {
    return read_file(log_of(manager)).find("shards are ours, of 3") != std::string::npos;
  }
  Json status() const { return Json::parse(kintsugi({"repair", "status", "--json"}).out, nullptr, false); }
  /// Chunks that it repaired, as its log says, "stripe:index".
  std::vector<std::string> repaired_by(size_t manager) const {
    std::istringstream log(read_file(log_of(manager)));
    const std::string words = "repair of chunk ";
    std::vector<std::string> chunks;
    for (std::string line; std::getline(log, line);) {
      const size_t at = line.find(words);
      if (at == std::string::npos || line.find(", attempt ") != std::string::npos) continue;  // failed
      const size_t begin = at + words.size();
      chunks.push_back(line.substr(begin, line.find(' ', begin) - begin));
    }
    return chunks;
  }
};

TEST_F(RepairManagers, OneOfThreeIsKilledDuringRepairsAndAllIsRepairedOnce) {
  start({"--chunkservers", "11", "--repair-managers", "3", "--repair-delay", "0", "--chunk-size", "4MiB"});
  for (size_t i = 0; i < 3; ++i)
    ASSERT_TRUE(eventually([&] { return has_shards(i); }, seconds(20))) << read_file(log_of(i));
  const std::string file = make_file("file", size_t{600} << 20, 1);
  ASSERT_EQ(kintsugi({"put", file, "/file"}).exit_code, 0);
  kill9("chunkserver-2");
  ASSERT_TRUE(eventually(
      [&] { return !repaired_by(0).empty() || !repaired_by(1).empty() || !repaired_by(2).empty(); },
      seconds(60)));
  kill9(name(1));
  ASSERT_TRUE(eventually([&] { return healthy(); }, seconds(90))) << kintsugi({"fsck", "/"}).out;
  EXPECT_FALSE(repaired_by(0).empty());
  EXPECT_FALSE(repaired_by(2).empty());
  std::set<std::string> chunks;
  size_t repairs = 0;
  for (size_t i = 0; i < 3; ++i)
    for (const std::string& chunk : repaired_by(i)) {
      chunks.insert(chunk);
      ++repairs;
    }
  EXPECT_EQ(chunks.size(), repairs) << "no chunk is repaired twice";
  // The metaserver shows what the two that live did.
  const Json shown = status();
  ASSERT_TRUE(shown.is_object());
  EXPECT_EQ(shown.value("done", 0u), repaired_by(0).size() + repaired_by(2).size());
  // The repaired chunks replace those that three others held.
  for (const char* next : {"chunkserver-1", "chunkserver-4", "chunkserver-7"})
    kill9(next);
  ASSERT_EQ(kintsugi({"get", "/file", path("back")}).exit_code, 0);
  EXPECT_EQ(run_command({"/usr/bin/cmp", file, path("back")}).exit_code, 0);
  EXPECT_EQ(kintsugi({"cluster", "status", "--dir", cluster_directory()}).exit_code, 1);
  restart_missing();
  EXPECT_EQ(kintsugi({"cluster", "status", "--dir", cluster_directory()}).exit_code, 0);
  // More can be had at any time, fewer cannot. Stopped cleanly, they hand over at once.
  const std::vector<std::string> again{"cluster", "start", "--dir", cluster_directory(), "--repair-managers"};
  EXPECT_EQ(kintsugi({again[0], again[1], again[2], again[3], again[4], "2"}).exit_code, 1);
  EXPECT_EQ(kintsugi({again[0], again[1], again[2], again[3], again[4], "4"}).exit_code, 0);
  ASSERT_TRUE(eventually(
      [&] { return read_file(log_of(3)).find("shards are ours, of 4") != std::string::npos; }, seconds(20)))
      << read_file(log_of(3));
  EXPECT_EQ(kintsugi({"cluster", "stop", "--dir", cluster_directory()}).exit_code, 0);
  EXPECT_NE(read_file(log_of(3)).find("stopped"), std::string::npos);
}

TEST_F(RepairManagers, WithoutOneNothingIsRepairedAndEverybodySaysSoUntilTheClusterIsStartedAgain) {
  start({"--chunkservers", "5", "--policy", "rs-3-2-64k", "--repair-delay", "0"});
  const std::string file = make_file("file", 3'000'000, 1);
  ASSERT_EQ(kintsugi({"put", file, "/file"}).exit_code, 0);
  EXPECT_EQ(kintsugi({"repair", "status"}).exit_code, 0);
  kill9("repair-manager-1");
  kill9("chunkserver-2");
  const auto says_so = [&] {
    const Outcome status = kintsugi({"repair", "status"});
    return status.exit_code == 1 &&
           status.err.find("no repair manager is registered: nothing is repaired") != std::string::npos;
  };
  EXPECT_TRUE(eventually(says_so, seconds(10))) << kintsugi({"repair", "status"}).err;
  const std::string log = cluster_directory() + "/log/metaserver.log";
  EXPECT_TRUE(eventually(
      [&] {
        return read_file(log).find("missing chunks wait; start kintsugi-repair-manager") != std::string::npos;
      },
      seconds(60)))
      << read_file(log);
  const Outcome diagnosed = kintsugi({"diagnose"});
  EXPECT_NE(diagnosed.out.find("no repair manager is registered"), std::string::npos) << diagnosed.out;
  EXPECT_FALSE(healthy());
  ASSERT_EQ(kintsugi({"get", "/file", path("back")}).exit_code, 0);
  EXPECT_EQ(run_command({"/usr/bin/cmp", file, path("back")}).exit_code, 0);
  // What is missing is started, among it the repair manager.
  restart_missing();
  EXPECT_EQ(kintsugi({"repair", "status"}).exit_code, 0);
  EXPECT_TRUE(eventually([&] { return healthy(); }, seconds(60))) << kintsugi({"fsck", "/"}).out;
}

TEST_F(RepairManagers, AClusterOfAnEarlierVersionGetsOneWhenItIsStarted) {
  start({"--chunkservers", "3", "--policy", "rs-2-1-64k"});
  ASSERT_EQ(kintsugi({"cluster", "stop", "--dir", cluster_directory()}).exit_code, 0);
  const std::string description = cluster_directory() + "/cluster.json";
  Json made = Json::parse(read_file(description));
  made["repair_managers"] = 0;
  std::ofstream(description) << made;
  std::filesystem::remove(cluster_directory() + "/etc/repair-manager-1.toml");
  restart_missing();
  EXPECT_EQ(kintsugi({"repair", "status"}).exit_code, 0);
  EXPECT_EQ(Json::parse(read_file(description)).at("repair_managers"), 1);
}

}  // namespace
}  // namespace kintsugi::processes
