// What the console is made of: JSON that a browser can read, files that are part of the program, metrics.
#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "common/proto/verdicts.h"
#include "common/runtime/production/production_runtime.h"
#include "monitoring/daemon/console_api.h"
#include "monitoring/daemon/http_pages.h"
#include "tests/monitoring/daemon_rig.h"

namespace kintsugi::monitoring {
namespace {

using Json = nlohmann::json;

Json parsed(const std::string& text) {
  Json json = Json::parse(text, nullptr, false);
  EXPECT_TRUE(json.is_object()) << text;
  return json;
}

class ConsoleTest : public ::testing::Test {
 protected:
  MonitorRig rig;
  ConsoleApi api{*rig.monitor};
};

TEST_F(ConsoleTest, EveryDocumentIsThereBeforeAnybodyReports) {
  for (const std::string& text : {api.overview(), api.servers(), api.processes(), api.alarms(), api.repairs(),
                                  api.devices(), api.regions(), api.models(), api.names()})
    parsed(text);
  EXPECT_TRUE(parsed(api.overview()).at("metaserver").at("answered_s_ago").is_null());
}

/// A detector that has learnt one thing.
class Learned final : public Detector {
 public:
  std::string_view name() const override { return "learned"; }
  std::vector<proto::Verdict> examine(const model::Snapshot&) override { return {}; }
  std::vector<behaviour::Detector::Learnt> learnt() const override {
    return {{.process_kind = "chunkserver",
             .region = "disk.read",
             .observation = "duration",
             .r2 = 0.75,
             .samples = 300,
             .inputs = {"bytes"}}};
  }
};

TEST(ConsoleModels, SayHowMuchOfTheTimesOfARegionItsInputsExplain) {
  std::vector<std::unique_ptr<Detector>> detectors;
  detectors.push_back(std::make_unique<Learned>());
  MonitorRig rig;
  rig.simulation.run(rig.monitor->stop());
  rig.start(std::move(detectors));
  const Json models = parsed(ConsoleApi(*rig.monitor).models()).at("models");
  ASSERT_EQ(models.size(), 1u);
  EXPECT_EQ(models[0].at("region"), "disk.read");
  EXPECT_EQ(models[0].at("r2"), 0.75);
  EXPECT_EQ(models[0].at("usable"), false);
  EXPECT_EQ(models[0].at("executions"), 300);
}

/// Has learnt of more regions than are told; the last ones are explained best.
class LearnedMuch final : public Detector {
 public:
  std::string_view name() const override { return "learned much"; }
  std::vector<proto::Verdict> examine(const model::Snapshot&) override { return {}; }
  std::vector<behaviour::Detector::Learnt> learnt() const override {
    std::vector<behaviour::Detector::Learnt> all(Monitor::kMostModels + 10);
    for (size_t i = 0; i < all.size(); ++i)
      all[i].r2 = static_cast<double>(i) / static_cast<double>(all.size());
    return all;
  }
};

TEST(ConsoleModels, OfVeryManyThoseThatExplainMostAreTold) {
  std::vector<std::unique_ptr<Detector>> detectors;
  detectors.push_back(std::make_unique<LearnedMuch>());
  MonitorRig rig;
  rig.simulation.run(rig.monitor->stop());
  rig.start(std::move(detectors));
  const auto models = rig.monitor->models();
  ASSERT_EQ(models.size(), Monitor::kMostModels);
  EXPECT_GT(models[0].r2(), 0.99);
  EXPECT_GT(models[models.size() - 1].r2(), 0.01) << "the ten that explain least are left out";
}

TEST(ConsoleModels, AreInTheAnswerToDiagnoseWhenTheyAreAskedFor) {
  std::vector<std::unique_ptr<Detector>> detectors;
  detectors.push_back(std::make_unique<Learned>());
  MonitorRig rig;
  rig.simulation.run(rig.monitor->stop());
  rig.start(std::move(detectors));
  EXPECT_EQ(rig.diagnose().models_size(), 0);
  const proto::DiagnoseResponse answer = rig.diagnose(/*history=*/false, /*models=*/true);
  ASSERT_EQ(answer.models_size(), 1);
  EXPECT_EQ(answer.models(0).region(), "disk.read");
  EXPECT_EQ(answer.models(0).executions(), 300u);
  const Json json = parsed(proto::to_json(answer));
  EXPECT_EQ(json.at("models")[0].at("inputs"), Json::array({"bytes"}));
}

TEST_F(ConsoleTest, TheMetaserverAndTheMonitorArePartsOfTheCluster) {
  rig.report_for(3);
  Json parts = parsed(api.servers()).at("parts");
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_EQ(parts[0].at("kind"), "metaserver");
  EXPECT_TRUE(parts[0].at("answers"));
  EXPECT_EQ(parts[1].at("kind"), "monitor");
  rig.kill_metaserver();
  rig.report_for(10);
  parts = parsed(api.servers()).at("parts");
  EXPECT_FALSE(parts[0].at("answers"));
  EXPECT_EQ(parts[0].at("alarms").size(), 1u);
  const Json overview = parsed(api.overview());
  EXPECT_FALSE(overview.at("metaserver").at("answers"));
  EXPECT_EQ(overview.at("holding_alarms"), 1);
}

TEST_F(ConsoleTest, StripesThatLackChunksArePartOfTheOverview) {
  proto::StripeHealth& health = *rig.meta->space.mutable_health();
  health.set_degraded(8);
  health.set_without_spare(3);
  health.set_missing_chunks(11);
  rig.report_for(3);
  const Json stripes = parsed(api.overview()).at("stripes");
  EXPECT_EQ(stripes.at("degraded"), 8);
  EXPECT_EQ(stripes.at("without_spare"), 3);
  EXPECT_EQ(stripes.at("unreadable"), 0);
  EXPECT_EQ(stripes.at("missing_chunks"), 11);
}

TEST_F(ConsoleTest, TheOverviewBeginsWithTheHealthOfData) {
  rig.meta->space.set_stripes(1204);
  rig.report_for(3);
  const Json data = parsed(api.overview()).at("data");
  EXPECT_EQ(data.at("level"), "good");
  EXPECT_EQ(data.at("sentence"), "All 1,204 stripes are whole.");
  rig.meta->space.mutable_health()->set_degraded(1);
  proto::RepairRecord& repair = *rig.meta->repairs.add_running();
  repair.set_estimated_seconds(40);
  repair.set_started_ns(rig.monitor->snapshot().wall_ns);
  rig.report_for(3);
  EXPECT_EQ(parsed(api.overview()).at("data").at("level"), "warning");
  EXPECT_NEAR(parsed(api.repairs()).at("left_s").get<double>(), 37, 1);
}

TEST_F(ConsoleTest, QuotasAndSnapshotsAreAskedForWhileSomebodyLooks) {
  proto::Quota& quota = *rig.meta->quotas.add_quotas();
  quota.set_path("/home/anna");
  quota.set_bytes(5);
  quota.set_max_bytes(10);
  rig.report_for(3);
  EXPECT_EQ(rig.meta->quotas_asked, 0) << "nobody looked";
  EXPECT_FALSE(parsed(api.names()).at("known"));
  rig.report_for(3);
  const Json names = parsed(api.names());
  ASSERT_TRUE(names.at("known"));
  EXPECT_EQ(names.at("quotas")[0].at("path"), "/home/anna");
  EXPECT_EQ(names.at("quotas")[0].at("most_bytes"), 10);
  EXPECT_TRUE(names.at("quotas")[0].at("most_files").is_null()) << "no limit";
  EXPECT_EQ(names.at("snapshots")[0].at("name"), "monday");
  rig.report_for(20);
  const int asked = rig.meta->quotas_asked;
  rig.report_for(5);
  EXPECT_EQ(rig.meta->quotas_asked, asked) << "nobody has looked for a while";
}

TEST_F(ConsoleTest, ServersAndAlarmsBelongTogether) {
  rig.report_for(12);
  rig.report_for(4, /*stuck=*/2);
  const Json alarms = parsed(api.alarms());
  ASSERT_EQ(alarms.at("standing").size(), 1u);
  const Json& alarm = alarms.at("standing")[0];
  EXPECT_EQ(alarm.at("server"), "server-2");
  EXPECT_THAT(alarm.at("advice").get<std::string>(), ::testing::StartsWith("server-2 is busy with one step"));
  const Json servers = parsed(api.servers()).at("servers");
  ASSERT_EQ(servers.size(), 3u);
  EXPECT_EQ(servers[0].at("name"), "server-1");
  EXPECT_TRUE(servers[0].at("alarms").empty());
  EXPECT_EQ(servers[1].at("alarms"), Json::array({alarm.at("id")}));
  const Json overview = parsed(api.overview());
  EXPECT_EQ(overview.at("alarms"), 1);
  EXPECT_EQ(overview.at("servers").at("reporting"), 3);
  EXPECT_EQ(parsed(api.processes()).at("processes").size(), 3u);
}

TEST_F(ConsoleTest, TheDisksOfAServerAreThereWithTheirHealth) {
  proto::ServerState& server = *rig.meta->servers.mutable_servers(0);
  proto::DiskState& well = *server.add_disk_states();
  well.set_path("/data/1");
  well.set_chunks(7);
  proto::DiskState& hung = *server.add_disk_states();
  hung.set_path("/data/2");
  hung.set_health(proto::DiskState::HUNG);
  hung.set_reason("a call has not returned for 31 s");
  rig.report_for(3);
  const Json servers = parsed(api.servers()).at("servers");
  const Json disks = servers[0].at("disk_states");
  ASSERT_EQ(disks.size(), 2u);
  EXPECT_EQ(disks[0].at("health"), "well");
  EXPECT_EQ(disks[0].at("chunks"), 7);
  EXPECT_EQ(disks[1].at("path"), "/data/2");
  EXPECT_EQ(disks[1].at("health"), "hung");
  EXPECT_EQ(disks[1].at("reason"), "a call has not returned for 31 s");
  EXPECT_TRUE(servers[1].at("disk_states").empty());
}

TEST_F(ConsoleTest, ARepairIsATreeWithTheRatesOfItsEdges) {
  proto::RepairRecord& record = *rig.meta->repairs.add_running();
  record.set_destination(101);
  for (const auto& [from, to] : {std::pair{102, 101}, {103, 102}}) {
    proto::RepairEdge& edge = *record.add_edges();
    edge.set_from(static_cast<uint64_t>(from));
    edge.set_to(static_cast<uint64_t>(to));
  }
  proto::ServerName& name = *rig.meta->repairs.add_names();
  name.set_server_id(102);
  name.set_name("server-2");
  for (uint64_t second = 0; second < 20; ++second) {
    proto::SightReport report = rig.report(1);
    proto::SightDevice& peer = *report.add_devices();
    peer.set_name("10.0.1.2:1");
    peer.set_peer(true);
    peer.set_bytes_in(second * 1'000'000);
    EXPECT_TRUE(rig.send(report));
    EXPECT_TRUE(rig.send(rig.report(2)));
    rig.simulation.run_for(1s);
  }
  const Json repair = parsed(api.repairs()).at("running").at(0);
  EXPECT_EQ(repair.at("nodes").size(), 3u);
  ASSERT_EQ(repair.at("edges").size(), 2u);
  EXPECT_NEAR(repair.at("edges")[0].at("rate").get<double>(), 1e6, 1e4);
  EXPECT_TRUE(repair.at("edges")[1].at("rate").is_null()) << "nobody reports it";
}

TEST_F(ConsoleTest, ASlowDiskStandsFirstAndARegionTellsWhereItIsSlow) {
  for (uint64_t second = 1; second <= 70; ++second) {
    for (uint64_t server = 1; server <= 3; ++server) {
      proto::SightReport report = rig.report(server);
      proto::SightDevice& disk = *report.add_devices();
      disk.set_name("disk-" + std::to_string(server));
      disk.set_submitted(second * 100);
      disk.set_completed(second * 100);
      disk.set_busy_ns(second * 100 * (server == 2 ? 12'000'000 : 3'000'000));
      proto::SightPath& path = *report.add_new_paths();
      path.set_path(1);
      path.set_role_path(11);
      path.set_site("disk.read");
      proto::SightState& state = *report.add_new_states();
      state.set_state(1);
      state.set_role_path(11);
      proto::SightEdge& edge = *report.add_edges();
      edge.set_from(1);
      edge.set_to(2);
      edge.set_count(second * 100);
      edge.set_sum(static_cast<int64_t>(second * 100 * (server == 2 ? 24 : 22) * 256));  // 16 ms and 4 ms
      for (int octave = 0; octave < 32; ++octave)
        edge.add_buckets(octave == (server == 2 ? 24 : 22) ? static_cast<uint32_t>(second * 100) : 0);
      EXPECT_TRUE(rig.send(report));
    }
    rig.simulation.run_for(1s);
  }
  const Json slow = parsed(api.devices()).at("devices").at(0);
  EXPECT_EQ(slow.at("device"), "disk-2");
  EXPECT_NEAR(slow.at("factor").get<double>(), 4, 0.01);
  EXPECT_NEAR(slow.at("latency_s").get<double>(), 0.012, 1e-6);
  const Json region = parsed(api.regions()).at("regions").at(0);
  EXPECT_EQ(region.at("region"), "disk.read");
  EXPECT_EQ(region.at("slowest"), "server-2");
  EXPECT_NEAR(region.at("slowest_s").get<double>(), 0.016777216, 1e-6);
  EXPECT_NEAR(region.at("per_second").get<double>(), 300, 15);
}

TEST_F(ConsoleTest, TextsOfReportsAreWhatTheyAre) {
  proto::SightReport report = rig.report(1);
  report.set_name("<script>\"\n");
  EXPECT_TRUE(rig.send(report));
  const Json processes = parsed(api.processes()).at("processes");
  EXPECT_THAT(processes.at(0).at("name").get<std::string>(), ::testing::StartsWith("<script>"));
}

TEST(ConsoleFiles, ThePageNamesOnlyFilesThatAreThere) {
  std::map<std::string, const ConsoleFile*> files;
  for (const ConsoleFile* file = kConsoleFiles; !file->path.empty(); ++file)
    files[std::string(file->path)] = file;
  ASSERT_TRUE(files.contains("/"));
  const std::string page(files.at("/")->body);
  EXPECT_THAT(page, ::testing::StartsWith("<!doctype html>"));
  for (const auto& [path, file] : files) {
    EXPECT_FALSE(file->body.empty()) << path;
    if (path.starts_with("/docs/")) continue;  // shown as text
    EXPECT_EQ(std::string(file->body).find("https://"), std::string::npos)
        << "nothing is fetched from elsewhere";
    // href="x", src="x" and from "./x".
    const std::string body(file->body);
    for (const std::string& before :
         {std::string("href=\""), std::string("src=\""), std::string("from \"./")}) {
      for (size_t at = body.find(before); at != std::string::npos; at = body.find(before, at + 1)) {
        const size_t begin = at + before.size();
        const std::string name = body.substr(begin, body.find('"', begin) - begin);
        if (!name.starts_with("#")) EXPECT_TRUE(files.contains("/" + name)) << path << " names " << name;
      }
    }
  }
  EXPECT_EQ(files.at("/console.js")->content_type, "text/javascript; charset=utf-8");
}

TEST(ConsoleFiles, TheDocumentsThatAlarmsLinkToAreServed) {
  std::map<std::string, const ConsoleFile*> files;
  for (const ConsoleFile* file = kConsoleFiles; !file->path.empty(); ++file)
    files[std::string(file->path)] = file;
  ASSERT_TRUE(files.contains("/runbooks.js"));
  const std::string links(files.at("/runbooks.js")->body);
  size_t named = 0;
  for (size_t end = links.find(".md\""); end != std::string::npos; end = links.find(".md\"", end + 1)) {
    const size_t begin = links.rfind('"', end) + 1;
    const std::string path = "/docs/" + links.substr(begin, end + 3 - begin);
    EXPECT_TRUE(files.contains(path)) << path;
    ++named;
  }
  EXPECT_GT(named, 5u);
  EXPECT_EQ(files.at("/docs/failures.md")->content_type, "text/plain; charset=utf-8");
}

TEST(ConsoleFiles, MetricsTellOfAlarmsAndProcesses) {
  MonitorRig rig;
  ConsoleApi api(*rig.monitor);
  runtime::ProductionRuntime production;
  http::HttpServer http(production.runtime());
  metrics::Metrics metrics;
  add_pages(http, metrics, *rig.monitor, api);
  rig.report_for(4, /*stuck=*/2);
  const std::string text = metrics.text();
  EXPECT_THAT(text, ::testing::HasSubstr("kintsugi_monitor_alarms 1"));
  EXPECT_THAT(text, ::testing::HasSubstr("server=\"server-2\""));
  EXPECT_THAT(text,
              ::testing::HasSubstr("kintsugi_process_silent_seconds{kind=\"chunkserver\",name=\"server-1\""));
}

}  // namespace
}  // namespace kintsugi::monitoring
