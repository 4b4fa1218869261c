// Repair managers as processes of their own; one is killed in the middle of its repairs.
#include <memory>
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
  void start_managers(size_t count) {
    std::string meta, secret;
    for (const std::string& variable : environment()) {
      const std::string value = variable.substr(variable.find('=') + 1);
      (variable.rfind("KINTSUGI_META=", 0) == 0 ? meta : secret) = value;
    }
    for (size_t i = 0; i < count; ++i) {
      const std::vector<std::string> arguments{std::string(KINTSUGI_BINARIES) + "/kintsugi-repair-manager",
                                               "--metaserver=" + meta, "--secret-file=" + secret,
                                               "--log-file=" + log_of(i)};
      managers.push_back(std::make_unique<BackgroundCommand>(arguments, environment()));
    }
  }
  std::string log_of(size_t manager) const {
    return cluster_directory() + "/log/repair-manager-" + std::to_string(manager) + ".log";
  }
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

  std::vector<std::unique_ptr<BackgroundCommand>> managers;
};

TEST_F(RepairManagers, OneOfThreeIsKilledDuringRepairsAndAllIsRepairedOnce) {
  start({"--chunkservers", "11", "--repair-delay", "0", "--chunk-size", "4MiB"});
  start_managers(3);
  for (size_t i = 0; i < 3; ++i)
    ASSERT_TRUE(eventually([&] { return has_shards(i); }, seconds(20))) << read_file(log_of(i));
  const std::string file = make_file("file", size_t{600} << 20, 1);
  ASSERT_EQ(kintsugi({"put", file, "/file"}).exit_code, 0);
  kill9("chunkserver-2");
  ASSERT_TRUE(eventually(
      [&] { return !repaired_by(0).empty() || !repaired_by(1).empty() || !repaired_by(2).empty(); },
      seconds(60)));
  kill(managers[1]->pid(), SIGKILL);
  managers[1]->exit_code();
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
  // What was repaired replaces what three others held.
  for (const char* next : {"chunkserver-1", "chunkserver-4", "chunkserver-7"})
    kill9(next);
  ASSERT_EQ(kintsugi({"get", "/file", path("back")}).exit_code, 0);
  EXPECT_EQ(run_command({"/usr/bin/cmp", file, path("back")}).exit_code, 0);
  // Stopped cleanly, they hand over at once.
  for (size_t i : {0u, 2u}) {
    kill(managers[i]->pid(), SIGTERM);
    EXPECT_EQ(managers[i]->exit_code(), 0) << read_file(log_of(i));
  }
}

}  // namespace
}  // namespace kintsugi::processes
