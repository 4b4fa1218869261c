// `kintsugi cluster` where something is in its way: a directory that moved, a daemon that does not come up.
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tests/processes/process_cluster.h"

namespace kintsugi::processes {
namespace {

namespace fs = std::filesystem;

class LocalCluster : public ProcessCluster {
 protected:
  Outcome cluster(const std::string& what, const std::vector<std::string>& options = {}) const {
    std::vector<std::string> arguments{"cluster", what, "--dir", cluster_directory()};
    arguments.insert(arguments.end(), options.begin(), options.end());
    return kintsugi(arguments);
  }
  static void expect_one_line(const Outcome& outcome) {
    EXPECT_EQ(outcome.exit_code, 1);
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
    EXPECT_EQ(outcome.out, "");
  }
};

TEST_F(LocalCluster, GoesOnInAnotherDirectoryAfterItWasMoved) {
  start({"--chunkservers", "3", "--policy", "rs-2-1-64k", "--repair-managers", "1"});
  const std::string file = make_file("file", 300000, 1);
  ASSERT_EQ(kintsugi({"put", file, "/file"}).exit_code, 0);
  const std::string elsewhere = path("else where's");
  fs::rename(cluster_directory(), elsewhere);
  const Outcome early = kintsugi({"cluster", "start", "--dir", elsewhere});
  expect_one_line(early);
  EXPECT_NE(early.err.find("still runs: stop it first"), std::string::npos) << early.err;
  ASSERT_EQ(kintsugi({"cluster", "stop", "--dir", elsewhere}).exit_code, 0);

  const Outcome started = kintsugi({"cluster", "start", "--dir", elsewhere});
  ASSERT_EQ(started.exit_code, 0) << started.err;
  EXPECT_FALSE(fs::exists(cluster_directory())) << "somebody still writes where it was";
  // Where clusters that are made from now on look which ports are taken.
  const char *state = std::getenv("XDG_STATE_HOME"), *home = std::getenv("HOME");
  const std::string list = state ? state : home ? home + std::string("/.local/state") : "";
  if (fs::exists(list)) EXPECT_NE(read_file(list + "/kintsugi/clusters").find(elsewhere), std::string::npos);
  const Outcome read =
      run_command({"/bin/sh", "-c", R"(. "$0/env" && exec "$1" cat /file)", elsewhere, command({}).front()});
  EXPECT_EQ(read.out, read_file(file)) << read.err;
  EXPECT_EQ(kintsugi({"cluster", "stop", "--dir", elsewhere}).exit_code, 0);
  fs::rename(elsewhere, cluster_directory());
  restart_missing();
  EXPECT_EQ(kintsugi({"cat", "/file"}).out, read_file(file));
}

TEST_F(LocalCluster, ThatDoesNotComeUpHasNotGrown) {
  start({"--chunkservers", "3", "--policy", "rs-2-1-64k"});
  ASSERT_EQ(cluster("stop").exit_code, 0);
  const std::string before = read_file(cluster_directory() + "/cluster.json");
  std::ofstream(cluster_directory() + "/etc/chunkserver-2.toml", std::ios::app) << "nonsense = 1\n";
  const Outcome grown = cluster("start", {"--chunkservers", "5"});
  expect_one_line(grown);
  EXPECT_NE(grown.err.find("chunkserver-2 ended right after its start: "), std::string::npos) << grown.err;
  EXPECT_NE(grown.err.find("nonsense"), std::string::npos) << "it says why: " << grown.err;
  EXPECT_EQ(read_file(cluster_directory() + "/cluster.json"), before);
  EXPECT_EQ(pid_of("chunkserver-5"), -1) << "what was added is stopped";
}

TEST_F(LocalCluster, IsNotUpWhenItsChunkserversBelongToAnother) {
  start({"--chunkservers", "3", "--policy", "rs-2-1-64k"});
  ASSERT_EQ(cluster("stop").exit_code, 0);
  const std::string meta = cluster_directory() + "/data/meta";
  fs::rename(meta, path("meta-of-this-cluster"));
  fs::create_directory(meta);
  for (int i = 0; i < 3; ++i) {
    const Outcome started = cluster("start");
    expect_one_line(started);
    EXPECT_NE(started.err.find("chunkserver-"), std::string::npos) << started.err;
    EXPECT_NE(started.err.find("belong to cluster"), std::string::npos) << "it says why: " << started.err;
  }
  ASSERT_EQ(cluster("stop").exit_code, 0);
  fs::remove_all(meta);
  fs::rename(path("meta-of-this-cluster"), meta);
  EXPECT_EQ(cluster("start").exit_code, 0);
}

}  // namespace
}  // namespace kintsugi::processes
