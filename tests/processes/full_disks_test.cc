// A cluster whose disks have no room left: nobody is stuck, writes fail, and diagnosis says so.
#include <filesystem>

#include <fcntl.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/mount.h>
#include <unistd.h>

#include "tests/processes/process_cluster.h"

namespace kintsugi::processes {
namespace {

using Json = nlohmann::json;

class FullDisks : public ProcessCluster {
 protected:
  static constexpr int kServers = 3;

  void SetUp() override {
    ProcessCluster::SetUp();
    if (::geteuid() != 0) GTEST_SKIP() << "only root may mount file systems of a limited size";
  }
  void TearDown() override {
    // A test's cluster is stopped first, since it uses what is mounted.
    if (std::filesystem::exists(cluster_directory() + "/cluster.json"))
      (void)kintsugi({"cluster", "stop", "--dir", cluster_directory()});
    for (const std::string& directory : mounted_)
      EXPECT_EQ(::umount2(directory.c_str(), MNT_DETACH), 0);
    ProcessCluster::TearDown();
  }

  std::string data_of(const std::string& daemon) const { return cluster_directory() + "/data/" + daemon; }
  void limit(const std::string& directory, const std::string& options) {
    std::filesystem::create_directories(directory);
    ASSERT_EQ(::mount("tmpfs", directory.c_str(), "tmpfs", 0, options.c_str()), 0);
    mounted_.push_back(directory);
  }
  static void fill(const std::string& directory) {
    const int file = ::open((directory + "/something").c_str(), O_WRONLY | O_CLOEXEC | O_CREAT, 0600);
    ASSERT_GE(file, 0);
    const std::string zeros(1 << 20, '\0');
    while (::write(file, zeros.data(), zeros.size()) > 0) {
    }
    ::close(file);
  }
  /// The verdict of kind "full" on that party, once there is one; an empty document: none came.
  Json full(const std::string& server) {
    Json found = Json::object();
    (void)eventually(
        [&] {
          const Json answer = Json::parse(kintsugi({"diagnose", "--json"}).out, nullptr, false);
          for (const Json& verdict : answer.value("verdicts", Json::array()))
            if (verdict.at("kind") == "full" && verdict.at("server") == server) found = verdict;
          return !found.empty();
        },
        std::chrono::seconds(30));
    return found;
  }

 private:
  std::vector<std::string> mounted_;
};

TEST_F(FullDisks, DiagnoseSaysThatWritesFailForWantOfRoomOnTheServers) {
  for (int i = 1; i <= kServers; ++i)
    limit(data_of(fmt::format("chunkserver-{}", i)), "size=96m");
  start({"--chunkservers", std::to_string(kServers), "--policy", "rs-2-1-64k"});
  const std::string file = make_file("file", 3'000'000, 1);
  ASSERT_EQ(kintsugi({"put", file, "/before"}).exit_code, 0);
  ASSERT_TRUE(eventually([&] { return kintsugi({"diagnose"}).exit_code == 0; }, std::chrono::seconds(30)));
  for (int i = 1; i <= kServers; ++i)
    fill(data_of(fmt::format("chunkserver-{}", i)));
  const Json verdict = full("cluster");
  ASSERT_FALSE(verdict.empty()) << kintsugi({"diagnose"}).out;
  EXPECT_EQ(verdict.at("room").at("free_bytes"), 0);
  EXPECT_EQ(verdict.at("room").at("full_servers"), kServers);
  EXPECT_NE(kintsugi({"put", file, "/after"}).exit_code, 0);
  const Outcome told = kintsugi({"diagnose"});
  EXPECT_EQ(told.exit_code, 1);
  EXPECT_NE(told.out.find("no room: 0 B of "), std::string::npos) << told.out;
  EXPECT_EQ(told.out.find("nothing is stuck"), std::string::npos) << told.out;
  EXPECT_NE(told.err.find("writes fail"), std::string::npos) << told.err;
  EXPECT_NE(kintsugi({"diagnose", "--history"}).out.find("no room"), std::string::npos) << "it is an alarm";
  EXPECT_EQ(kintsugi({"cat", "/before"}).out, read_file(file));
  for (int i = 1; i <= kServers; ++i)
    std::filesystem::remove(data_of(fmt::format("chunkserver-{}", i)) + "/something");
  EXPECT_TRUE(eventually([&] { return kintsugi({"diagnose"}).exit_code == 0; }, std::chrono::seconds(60)))
      << kintsugi({"diagnose"}).out;
  EXPECT_TRUE(eventually([&] { return kintsugi({"put", "--replace", file, "/after"}).exit_code == 0; },
                         std::chrono::seconds(90)));
}

TEST_F(FullDisks, DiagnoseAndMetricsSayThatTheMetaserversOwnDiskHasNoInodes) {
  limit(data_of("meta"), "size=512m,nr_inodes=600");
  start({"--chunkservers", std::to_string(kServers), "--policy", "rs-2-1-64k"});
  ASSERT_EQ(kintsugi({"mkdir", "/before"}).exit_code, 0);
  const std::string crowd = data_of("meta") + "/crowd";
  std::filesystem::create_directory(crowd);
  for (int i = 0; i < 500; ++i)
    ::close(::open(fmt::format("{}/{}", crowd, i).c_str(), O_WRONLY | O_CLOEXEC | O_CREAT, 0600));
  const Json verdict = full("metaserver");
  ASSERT_FALSE(verdict.empty()) << kintsugi({"diagnose"}).out;
  EXPECT_LT(verdict.at("room").at("free_inodes"), verdict.at("room").at("needed_inodes"));
  EXPECT_NE(verdict.at("line_of_text").get<std::string>().find(" inodes free, and it needs 256"),
            std::string::npos);
  const Outcome refused = kintsugi({"mkdir", "/after"});
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_NE(refused.err.find("free inodes"), std::string::npos) << refused.err;
  const std::string metrics = metrics_of("metaserver");
  EXPECT_NE(metrics.find("\nkintsugi_metaserver_disk_full 1"), std::string::npos);
  EXPECT_NE(metrics.find("\nkintsugi_metaserver_disk_free_bytes "), std::string::npos);
  EXPECT_NE(metrics.find("\nkintsugi_metaserver_disk_free_inodes "), std::string::npos);
  EXPECT_EQ(kintsugi({"ls", "/"}).exit_code, 0);
  std::filesystem::remove_all(crowd);
  EXPECT_TRUE(eventually([&] { return kintsugi({"diagnose"}).exit_code == 0; }, std::chrono::seconds(60)));
  EXPECT_EQ(kintsugi({"mkdir", "/after"}).exit_code, 0);
}

}  // namespace
}  // namespace kintsugi::processes
