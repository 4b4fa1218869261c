// What mounts did, in the monitor's metrics and in the console: they have no pages of their own.
#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "common/metrics/metrics.h"
#include "monitoring/daemon/console_api.h"
#include "monitoring/daemon/mount_metrics.h"
#include "tests/monitoring/daemon_rig.h"

namespace kintsugi::monitoring {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

class MountsTest : public ::testing::Test {
 protected:
  MountsTest() { metrics.add(mount_metrics(*rig.monitor)); }

  /// A mount of a machine that has answered so many reads of 1 KiB, in 2 ms each.
  proto::SightReport report(const std::string& host, uint64_t reads, uint64_t process = 7) {
    proto::SightReport report = rig.report(1);
    report.set_process(process);
    report.set_kind("mount");
    report.set_name("mount at /data");
    report.set_host(host);
    report.clear_server_id();
    report.clear_address();
    report.set_uptime_ns(1'000'000'000 * (2 + process % 2));
    proto::SightMount& mount = *report.mutable_mount();
    mount.set_directory("/data");
    mount.set_read_bytes(reads << 10);
    mount.set_fetched_bytes(reads << 9);
    mount.set_dirty_bytes(4096);
    proto::SightMount::Operations& operations = *mount.add_operations();
    operations.set_kind("read");
    operations.set_requests(reads);
    operations.set_errors(reads / 100);
    operations.set_ns(reads * 2'000'000);
    return report;
  }
  size_t series(const std::string& name) {
    size_t found = 0;
    const std::string page = metrics.text();
    for (size_t at = page.find(name + "{"); at != std::string::npos; at = page.find(name + "{", at + 1))
      ++found;
    return found;
  }

  MonitorRig rig;
  metrics::Metrics metrics;
};

TEST_F(MountsTest, AreInTheMetricsByHostAndMountPoint) {
  ASSERT_TRUE(rig.send(report("ws-7", 1000)));
  ASSERT_TRUE(rig.send(report("ws-8", 50, 8)));
  const std::string page = metrics.text();
  for (const char* line :
       {"kintsugi_mount_requests_total{host=\"ws-7\",mount=\"/data\",operation=\"read\"} 1000",
        "kintsugi_mount_request_errors_total{host=\"ws-7\",mount=\"/data\",operation=\"read\"} 10",
        "kintsugi_mount_request_seconds_total{host=\"ws-7\",mount=\"/data\",operation=\"read\"} 2",
        "kintsugi_mount_read_bytes_total{host=\"ws-7\",mount=\"/data\"} 1024000",
        "kintsugi_mount_fetched_bytes_total{host=\"ws-7\",mount=\"/data\"} 512000",
        "kintsugi_mount_dirty_bytes{host=\"ws-8\",mount=\"/data\"} 4096"})
    EXPECT_THAT(page, HasSubstr(line));
}

TEST_F(MountsTest, TheProcessThatTookAMountOverStandsForIt) {
  ASSERT_TRUE(rig.send(report("ws-7", 1000, 7)));
  ASSERT_TRUE(rig.send(report("ws-7", 5, 10)));  // it began a second later
  EXPECT_EQ(series("kintsugi_mount_requests_total"), 1u);
  EXPECT_THAT(metrics.text(), HasSubstr("operation=\"read\"} 5\n"));
}

TEST_F(MountsTest, AreForgottenSomeMinutesAfterTheyAreGone) {
  ASSERT_TRUE(rig.send(report("ws-7", 1000)));
  rig.simulation.run_for(1min);
  EXPECT_EQ(series("kintsugi_mount_dirty_bytes"), 1u);
  rig.simulation.run_for(3min);
  EXPECT_EQ(series("kintsugi_mount_dirty_bytes"), 0u);
}

TEST_F(MountsTest, AreSoManyAtMost) {
  for (uint64_t i = 1; i <= kMostMounts + 50; ++i)
    ASSERT_TRUE(rig.send(report("ws-" + std::to_string(i), i, 100 + i)));
  EXPECT_EQ(series("kintsugi_mount_requests_total"), kMostMounts);
}

TEST_F(MountsTest, AReportWithTooManyKindsOfOperationsIsRefused) {
  proto::SightReport many = report("ws-7", 1);
  for (int i = 0; i < 40; ++i)
    many.mutable_mount()->add_operations()->set_kind("kind" + std::to_string(i));
  EXPECT_FALSE(rig.send(many));
  EXPECT_EQ(series("kintsugi_mount_requests_total"), 0u);
}

TEST_F(MountsTest, TheConsoleShowsWhatTheyDoEachSecond) {
  for (uint64_t second = 0; second < 30; ++second) {
    ASSERT_TRUE(rig.send(report("ws-7", second * 100)));
    rig.simulation.run_for(1s);
  }
  const Json processes = Json::parse(ConsoleApi(*rig.monitor).processes()).at("processes");
  ASSERT_EQ(processes.size(), 1u);
  const Json& mount = processes[0].at("mount");
  EXPECT_EQ(mount.at("directory"), "/data");
  EXPECT_NEAR(mount.at("operations_per_second").get<double>(), 100, 15);
  EXPECT_NEAR(mount.at("errors_per_second").get<double>(), 1, 0.3);
  EXPECT_NEAR(mount.at("latency_s").get<double>(), 0.002, 1e-6);
  EXPECT_NEAR(mount.at("read_rate").get<double>(), 102'400, 15'000);
  EXPECT_EQ(mount.at("write_rate"), 0);
  ASSERT_TRUE(rig.send(rig.report(1)));
  const Json later = Json::parse(ConsoleApi(*rig.monitor).processes()).at("processes");
  for (const Json& process : later)
    if (process.at("kind") == "chunkserver") EXPECT_TRUE(process.at("mount").is_null());
}

}  // namespace
}  // namespace kintsugi::monitoring
