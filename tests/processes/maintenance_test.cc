// `kintsugi server maintain` and `kintsugi repair limit`, on real processes.
#include <algorithm>
#include <thread>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "tests/processes/process_cluster.h"

namespace kintsugi::processes {
namespace {

using Json = nlohmann::json;
using std::chrono::seconds;
using testing::HasSubstr;
using testing::Not;

class MaintenanceCommands : public ProcessCluster {
 protected:
  std::string out(const std::vector<std::string>& arguments) const { return kintsugi(arguments).out; }
  Json server(const std::string& name) const {
    const Json all = Json::parse(out({"server", "list", "--json"}));
    for (const Json& server : all.at("servers"))
      if (server.at("name") == name) return server;
    return {};
  }
  Json repairs() const { return Json::parse(out({"repair", "status", "--json"})); }
  void expect_usage_error(const std::vector<std::string>& arguments, const std::string& line) const {
    const Outcome outcome = kintsugi(arguments);
    EXPECT_EQ(outcome.exit_code, 2) << outcome.out << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(line));
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  }
};

TEST_F(MaintenanceCommands, AServerThatIsAwayIsNotRepairedUntilItsMaintenanceEnds) {
  start({"--chunkservers", "7", "--policy", "rs-4-2-64k", "--repair-delay", "0"});
  // Each file is on six of seven servers: with some of them the second one has chunks.
  for (unsigned i = 0; i < 12; ++i)
    ASSERT_EQ(kintsugi({"put", make_file("f", 1 << 20, i), fmt::format("/f{}", i)}).exit_code, 0);

  expect_usage_error({"server", "maintain", "chunkserver-2"}, "say for how long with --for");
  expect_usage_error({"server", "maintain", "chunkserver-2", "--for", "25h"}, "--for is 1s to 24h");
  expect_usage_error({"server", "maintain", "chunkserver-2", "--for", "soon"}, "soon");
  EXPECT_THAT(kintsugi({"server", "maintain", "ghost", "--for", "1h"}).err, HasSubstr("there is no server"));
  EXPECT_EQ(server("chunkserver-2").at("maintenance_seconds"), 0);

  const std::string said = out({"server", "maintain", "chunkserver-2", "--for", "2h"});
  EXPECT_THAT(said, HasSubstr("Server chunkserver-2 is in maintenance until "));
  EXPECT_THAT(said, HasSubstr("kintsugi server maintain chunkserver-2 --end"));
  EXPECT_NEAR(server("chunkserver-2").at("maintenance_seconds").get<double>(), 7200, 60);
  EXPECT_THAT(out({"server", "list"}), HasSubstr("alive, in maintenance until "));
  EXPECT_THAT(metrics_of("metaserver"), HasSubstr("kintsugi_servers_in_maintenance 1"));
  EXPECT_THAT(metrics_of("metaserver"),
              HasSubstr("kintsugi_maintenance_seconds{chunkserver=\"chunkserver-2\"}"));
  ASSERT_TRUE(eventually(
      [&] { return out({"diagnose"}).find("is in maintenance until") != std::string::npos; }, seconds(20)));

  kill9("chunkserver-2");
  const auto is_dead = [&] { return server("chunkserver-2").at("liveness") == "dead"; };
  ASSERT_TRUE(eventually(is_dead, seconds(40)));
  std::this_thread::sleep_for(seconds(5));
  EXPECT_EQ(repairs().at("done"), 0);
  EXPECT_GT(repairs().at("delayed"), 0);
  const Outcome fsck = kintsugi({"fsck"});
  EXPECT_EQ(fsck.exit_code, 1) << fsck.out;
  EXPECT_THAT(fsck.out, HasSubstr("server chunkserver-2 is dead and in maintenance until "));
  const Outcome diagnosed = kintsugi({"diagnose"});
  EXPECT_EQ(diagnosed.exit_code, 0) << diagnosed.out << diagnosed.err;

  kill9("metaserver");
  restart_missing();  // also the server, which is well again
  ASSERT_TRUE(eventually([&] { return server("chunkserver-2").at("liveness") == "alive"; }, seconds(30)));
  EXPECT_GT(server("chunkserver-2").at("maintenance_seconds"), 6000);
  ASSERT_TRUE(eventually([&] { return healthy(); }, seconds(30)));

  kill9("chunkserver-2");
  ASSERT_TRUE(eventually(is_dead, seconds(40)));
  EXPECT_THAT(out({"server", "maintain", "chunkserver-2", "--end"}), HasSubstr("is not in maintenance"));
  EXPECT_THAT(out({"server", "list"}), Not(HasSubstr("in maintenance")));
  EXPECT_TRUE(eventually([&] { return healthy(); }, seconds(60))) << "now it is repaired";
  EXPECT_GT(repairs().at("done"), 0);
  const std::string audit = read_file(cluster_directory() + "/log/metaserver.audit.log");
  EXPECT_THAT(audit, HasSubstr("maintenance for 7200 s: done"));
  EXPECT_THAT(audit, HasSubstr("maintenance ends: done"));
}

TEST_F(MaintenanceCommands, TheLimitOfRepairsIsShownKeptAndTakenAway) {
  start({"--chunkservers", "4", "--policy", "rs-2-1-64k"});
  expect_usage_error({"repair", "limit", "fast"}, "RATE is bytes a second at each server");
  expect_usage_error({"repair", "limit", "1MiB"}, "4.0 MiB to 1.0 TiB");
  EXPECT_EQ(repairs().at("limit_bytes_per_second"), 0);
  EXPECT_THAT(out({"repair", "limit", "50MiB"}), HasSubstr("50.0 MiB a second at each server"));
  EXPECT_EQ(repairs().at("limit_bytes_per_second"), 50 << 20);
  EXPECT_THAT(out({"repair", "status"}), HasSubstr("limited to 50.0 MiB a second at each server"));
  EXPECT_TRUE(eventually(
      [&] {
        return metrics_of("chunkserver-3").find("kintsugi_pacer_cluster_limit_bytes_per_second 52428800") !=
               std::string::npos;
      },
      seconds(5)))
      << "chunkservers hear of it";
  kill9("metaserver");
  restart_missing();
  ASSERT_TRUE(eventually([&] { return kintsugi({"repair", "status"}).exit_code == 0; }, seconds(30)));
  EXPECT_EQ(repairs().at("limit_bytes_per_second"), 50 << 20);
  EXPECT_THAT(metrics_of("metaserver"), HasSubstr("kintsugi_repair_limit_bytes_per_second 52428800"));
  EXPECT_THAT(out({"repair", "limit", "off"}), HasSubstr("Repairs are not limited"));
  EXPECT_EQ(repairs().at("limit_bytes_per_second"), 0);
  const std::string audit = read_file(cluster_directory() + "/log/metaserver.audit.log");
  EXPECT_THAT(audit, HasSubstr("LimitRepairs 52428800 bytes/s: done"));
  EXPECT_THAT(audit, HasSubstr("LimitRepairs off: done"));
}

}  // namespace
}  // namespace kintsugi::processes
