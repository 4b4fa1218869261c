// What a local cluster's monitor records of its daemons: history over time, across the death of a daemon and of the monitor
// itself, and on a disk without room.
#include <filesystem>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <nlohmann/json.hpp>
#include <signal.h>
#include <sys/mount.h>
#include <unistd.h>

#include "tests/processes/process_cluster.h"

namespace kintsugi::processes {
namespace {

using std::chrono::seconds;
using testing::HasSubstr;
using Json = nlohmann::json;

class MetricsHistory : public ProcessCluster {
 protected:
  void TearDown() override {
    if (!mounted_.empty()) {
      (void)kintsugi({"cluster", "stop", "--dir", cluster_directory()});
      EXPECT_EQ(::umount2(mounted_.c_str(), MNT_DETACH), 0);
    }
    ProcessCluster::TearDown();
  }
  std::string monitor_data() const { return cluster_directory() + "/data/monitor"; }
  std::string page(const std::string& path) const {
    std::string address = Json::parse(read_file(cluster_directory() + "/cluster.json")).at("monitor_http");
    address.replace(address.find(':'), 1, "/");
    const std::string script =
        "exec 3<>/dev/tcp/" + address + "; printf 'GET %s HTTP/1.0\\r\\n\\r\\n' '" + path + "' >&3; cat <&3";
    return run_command({"/bin/bash", "-c", script}).out;
  }
  Json document(const std::string& path) const {
    const std::string answer = page(path);
    const size_t body = answer.find("\r\n\r\n");
    return Json::parse(body == std::string::npos ? "" : answer.substr(body), nullptr, false);
  }
  Json api(const std::string& query) const { return document("/api/v1/metrics" + query); }
  /// How many points of a metric of a daemon there are.
  size_t points(const std::string& daemon, const std::string& metric) const {
    const Json answer = api("?since=3600&step=1&server=" + daemon + "&names=" + metric);
    if (!answer.is_object() || answer.at("series").empty()) return 0;
    return answer.at("series")[0].at("points").size();
  }
  std::vector<std::string> listed() const {
    std::vector<std::string> names;
    const Json answer = api("");
    if (answer.is_object())
      for (const Json& server : answer.at("servers"))
        names.push_back(server.at("name"));
    return names;
  }
  Outcome metrics(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), {std::string(KINTSUGI_BINARIES) + "/kintsugi-monitor", "metrics"});
    arguments.push_back(monitor_data());
    return run_command(arguments);
  }

  std::string mounted_;
};

TEST_F(MetricsHistory, HasEveryDaemonAndGoesOnAcrossDeathsWithANewSegment) {
  start({"--chunkservers", "3", "--policy", "rs-2-1-64k"});
  ASSERT_TRUE(
      eventually([&] { return points("chunkserver-2", "kintsugi_chunkserver_chunks") >= 3; }, seconds(60)))
      << page("/api/v1/metrics");
  EXPECT_THAT(listed(), testing::IsSupersetOf(
                            {"chunkserver-1", "chunkserver-2", "chunkserver-3", "metaserver", "monitor"}));
  EXPECT_GE(points("metaserver", "kintsugi_files"), 1u) << "the page of a daemon";
  EXPECT_GE(points("metaserver", "rss"), 1u) << "what the kernel says of it";
  EXPECT_GE(points("monitor", "cpu_ns"), 1u);
  ASSERT_EQ(kintsugi({"put", make_file("file", 3'000'000, 1), "/file"}).exit_code, 0);
  ASSERT_TRUE(eventually(
      [&] {
        const Json answer = api("?since=3600&step=1&names=kintsugi_chunkserver_stored_bytes");
        double most = 0;
        for (const Json& series : answer.at("series"))
          for (const Json& point : series.at("points"))
            most = std::max(most, point[3].get<double>());
        return most > 900'000;
      },
      seconds(30)));

  const auto restarts = [&](const std::string& server) {
    return api("?since=3600&server=" + server + "&names=rss").at("restarts").size();
  };
  const size_t before = restarts("chunkserver-2"), of_another = restarts("chunkserver-1");
  kill9("chunkserver-2");
  restart_missing();
  EXPECT_TRUE(eventually([&] { return restarts("chunkserver-2") == before + 1; }, seconds(60)));
  const pid_t pid = pid_of("chunkserver-2");
  EXPECT_TRUE(eventually(
      [&] { return pid_of("chunkserver-2") == pid && points("chunkserver-2", "rss") >= 6; }, seconds(60)));

  const size_t had = points("chunkserver-1", "rss");
  kill9("monitor");
  restart_missing();
  EXPECT_TRUE(eventually([&] { return points("chunkserver-1", "rss") >= had + 3; }, seconds(60)))
      << "the history from before the monitor died is there, and it grows";
  EXPECT_EQ(restarts("chunkserver-1"), of_another) << "the monitor has restarted, and no chunkserver";

  const Outcome list = metrics({});
  EXPECT_EQ(list.exit_code, 0) << list.err;
  EXPECT_THAT(list.out, HasSubstr("\nchunkserver-2\n"));
  const Outcome table = metrics({"--export", "--server", "chunkserver-2", "--name", "rss"});
  EXPECT_EQ(table.exit_code, 0) << table.err;
  EXPECT_THAT(table.out, HasSubstr("\nt_ns,chunkserver-2:rss,open,restarts\n"));
  EXPECT_GE(std::count(table.out.begin(), table.out.end(), '\n'), 10);
  EXPECT_EQ(metrics({"--name", "nonsense"}).exit_code, 1);
  EXPECT_EQ(metrics({"--nonsense"}).exit_code, 2);
  EXPECT_THAT(page("/api/v1/metrics?nonsense=1"), HasSubstr(" 400 "));
}

TEST_F(MetricsHistory, TheConsoleIsToldHowLongTheRepairOfAServerWouldTake) {
  start({"--chunkservers", "4", "--policy", "rs-2-1-64k"});
  ASSERT_EQ(kintsugi({"put", make_file("file", 9'000'000, 1), "/file"}).exit_code, 0);
  const auto what_if = [&](const std::string& query) { return document("/api/v1/what-if?" + query); };
  // The file's one stripe lies on three of the four servers.
  const auto loses = [&](const std::string& server) {
    const Json answer = what_if("server=" + server);
    return answer.is_object() && answer.value("chunks", 0.0) >= 1;
  };
  std::string holder;
  ASSERT_TRUE(eventually(
      [&] {
        for (int number = 1; number <= 4 && holder.empty(); ++number)
          if (const std::string server = "chunkserver-" + std::to_string(number); loses(server))
            holder = server;
        return !holder.empty();
      },
      seconds(60)))
      << what_if("server=chunkserver-1");
  EXPECT_GT(what_if("server=" + holder).at("all_seconds").get<double>(), 0);
  EXPECT_EQ(what_if("server=" + holder).at("placement"), "known");
  EXPECT_THAT(what_if("server=nobody").at("problem").get<std::string>(), HasSubstr("no such server"));
  EXPECT_THAT(page("/api/v1/what-if?server=a&policy=b"), HasSubstr(" 400 "));
  EXPECT_THAT(page("/api/v1/what-if?server=a%20b"), HasSubstr(" 400 "));
  kill9("repair-manager-1");
  EXPECT_TRUE(eventually([&] { return what_if("server=" + holder).contains("problem"); }, seconds(60)));
  EXPECT_TRUE(api("").is_object()) << "other pages go on";
}

TEST_F(MetricsHistory, ADiskWithoutRoomStopsTheRecordingAndNothingElse) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root may mount a file system of a limited size";
  const std::string directory = monitor_data() + "/metrics";
  std::filesystem::create_directories(directory);
  ASSERT_EQ(::mount("tmpfs", directory.c_str(), "tmpfs", 0, "size=128k"), 0);
  mounted_ = directory;
  start({"--chunkservers", "3", "--policy", "rs-2-1-64k"});
  ASSERT_TRUE(eventually(
      [&] {
        const Json answer = api("");
        return answer.is_object() && answer.at("recording").at("stopped") != "";
      },
      seconds(120)))
      << page("/api/v1/metrics");
  EXPECT_THAT(metrics_of("monitor"), HasSubstr("\nkintsugi_monitor_metrics_stopped 1"));
  ASSERT_EQ(kintsugi({"put", make_file("file", 300'000, 1), "/file"}).exit_code, 0);
  EXPECT_TRUE(eventually([&] { return kintsugi({"diagnose"}).exit_code == 0; }, seconds(30)));
  EXPECT_THAT(kintsugi({"diagnose"}).out, HasSubstr("3 of 3 servers report"));
  const std::string log = read_file(cluster_directory() + "/log/monitor.log");
  const size_t first = log.find("metrics are not recorded");
  ASSERT_NE(first, std::string::npos);
  EXPECT_EQ(log.find("metrics are not recorded", first + 1), std::string::npos) << "it is said once";
  EXPECT_GE(points("chunkserver-1", "rss"), 1u) << "what was kept before can be read";
}

}  // namespace
}  // namespace kintsugi::processes
