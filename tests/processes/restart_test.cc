// Chunkservers that are restarted one after the other while files are written and read, and settings that are read again.
#include <atomic>
#include <csignal>
#include <fstream>
#include <thread>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "tests/processes/process_cluster.h"

namespace kintsugi::processes {
namespace {

using Json = nlohmann::json;
using std::chrono::seconds;
using testing::HasSubstr;

class Restart : public ProcessCluster {
 protected:
  void restart(const std::string& daemon) {
    const pid_t pid = pid_of(daemon);
    send(daemon, SIGTERM);
    ASSERT_TRUE(eventually([&] { return ::kill(pid, 0) != 0; }, seconds(20))) << daemon << " does not stop";
    restart_missing();
  }
  bool all_alive() const {
    const Outcome listed = kintsugi({"server", "list", "--json"});
    if (listed.exit_code != 0) return false;
    const Json document = Json::parse(listed.out);
    for (const Json& server : document.at("servers"))
      if (server.at("liveness") != "alive" || server.at("reported") != true) return false;
    return true;
  }
};

TEST_F(Restart, OfEachChunkserverFailsNobodyAndStartsNoRepair) {
  start({"--chunkservers", "6", "--policy", "rs-3-2-64k"});
  const std::string file = make_file("file", 900'000, 1);
  std::atomic<bool> ends = false;
  std::vector<std::string> failures;
  int stored = 0;
  std::thread user([&] {
    while (!ends) {
      const std::string name = "/file-" + std::to_string(stored);
      for (const Outcome& outcome :
           {kintsugi({"put", file, name}), kintsugi({"get", "--replace", name, path("back")})})
        if (outcome.exit_code != 0) failures.push_back(outcome.err);
      if (read_file(path("back")) != read_file(file)) failures.push_back(name + " differs");
      ++stored;
    }
  });
  for (int server = 1; server <= 6; ++server) {
    restart("chunkserver-" + std::to_string(server));
    EXPECT_TRUE(eventually([&] { return all_alive(); }, seconds(20)));
  }
  ends = true;
  user.join();
  EXPECT_GT(stored, 0);
  EXPECT_THAT(failures, testing::IsEmpty());
  const Outcome repairs = kintsugi({"repair", "status", "--json"});
  ASSERT_EQ(repairs.exit_code, 0) << repairs.err;
  const Json status = Json::parse(repairs.out);
  EXPECT_EQ(status.at("done"), 0) << repairs.out;
  EXPECT_EQ(status.at("queued"), 0) << repairs.out;
  EXPECT_EQ(status.at("running").size(), 0u) << repairs.out;
  EXPECT_TRUE(healthy()) << kintsugi({"fsck", "/"}).out;
}

TEST_F(Restart, IsNotNeededForWhatAHangupChanges) {
  start({"--chunkservers", "3", "--policy", "replication-3-64k"});
  const std::string settings = cluster_directory() + "/etc/metaserver.toml";
  const std::string log = cluster_directory() + "/log/metaserver.log";
  const std::string before = read_file(settings);
  std::ofstream(settings) << "inline_bytes = \"2MiB\"\nrepair.max_per_server = 5\n" << before;
  send("metaserver", SIGHUP);
  EXPECT_TRUE(eventually([&] { return read_file(log).find("settings: changed:") != std::string::npos; },
                         seconds(10)));
  EXPECT_THAT(read_file(log), HasSubstr("changed: repair.max_per_server = 5; changed by a restart only: "
                                        "inline_bytes = \"2MiB\""));
  std::ofstream(settings) << "nonsense = 1\n" << before;
  send("metaserver", SIGHUP);
  EXPECT_TRUE(
      eventually([&] { return read_file(log).find("unknown key") != std::string::npos; }, seconds(10)));
  EXPECT_THAT(read_file(log), HasSubstr("the settings are as they were: "));
  const Outcome finalized = kintsugi({"cluster", "finalize"});
  EXPECT_EQ(finalized.exit_code, 0) << finalized.err;
  EXPECT_THAT(finalized.out, HasSubstr("there is nothing to finalize"))
      << "a new cluster has the newest format";
}

}  // namespace
}  // namespace kintsugi::processes
