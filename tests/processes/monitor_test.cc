// The monitor of a local cluster: it is started, found, asked, killed and started again.
#include <filesystem>
#include <fstream>
#include <thread>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>
#include <signal.h>

#include "common/proto/sight.pb.h"
#include "common/rpc/client.h"
#include "common/rpc/secret.h"
#include "common/runtime/production/production_runtime.h"
#include "common/runtime/production/run.h"
#include "tests/processes/process_cluster.h"

namespace kintsugi::processes {
namespace {

using std::chrono::seconds;
using testing::HasSubstr;
using Json = nlohmann::json;

/// A process that reports once a second that its event loop has been stuck for a minute, or that it goes on.
class StuckProcess {
 public:
  StuckProcess(const std::string& monitor, const std::string& secret_file, bool stuck = true)
      : stuck_(stuck),
        monitor_(*runtime::Endpoint::parse(monitor)),
        secret_(*rpc::Secret::load(secret_file)),
        thread_([this] { run(); }) {}
  ~StuckProcess() { stop(); }
  void stop() {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
  }

 private:
  void run() {
    runtime::ProductionRuntime production;
    rpc::Client client(production.runtime(), secret_);
    proto::SightReport report;
    report.set_process(4711);
    report.set_kind("client");
    report.set_name("the made up client");
    report.set_host("here");
    for (uint64_t sequence = 1; !stop_; ++sequence) {
      report.set_sequence(sequence);
      if (stuck_) report.mutable_loop()->set_stalled_ns(60'000'000'000 + sequence * 1'000'000'000);
      proto::SightReportAnswer answer;
      // The monitor may be away for a while.
      (void)runtime::run_on(
          production, client.call(Context{}.with_deadline(production.runtime().clock.now() + seconds(2)),
                                  monitor_, rpc::Method::kSightReport, report, answer));
      for (int i = 0; i < 20 && !stop_; ++i)
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    runtime::run_on(production, client.stop());
  }

  const bool stuck_;
  const runtime::Endpoint monitor_;
  const rpc::Secret secret_;
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

class Monitor : public ProcessCluster {
 protected:
  Json cluster_json() const { return Json::parse(read_file(cluster_directory() + "/cluster.json")); }
  std::string page(const std::string& path) const {
    std::string address = cluster_json().at("monitor_http");
    address.replace(address.find(':'), 1, "/");
    return run_command({"/bin/bash", "-c",
                        "exec 3<>/dev/tcp/" + address + "; printf 'GET " + path +
                            " HTTP/1.0\\r\\n\\r\\n' >&3; cat <&3"})
        .out;
  }
  Json api(const std::string& name) const {
    const std::string answer = page("/api/v1/" + name);
    const size_t body = answer.find("\r\n\r\n");
    return Json::parse(body == std::string::npos ? "" : answer.substr(body), nullptr, false);
  }
  bool knows_its_servers(int count) const {
    const Json overview = api("overview");
    return overview.is_object() && overview.at("servers").at("alive") == count;
  }
  Outcome status() const { return kintsugi({"cluster", "status", "--dir", cluster_directory()}); }
};

TEST_F(Monitor, IsStartedWithTheClusterAndServesItsConsole) {
  start({"--chunkservers", "3", "--policy", "rs-2-1-64k"});
  const std::string console = "http://" + cluster_json().at("monitor_http").get<std::string>() + "/";
  const Outcome again = kintsugi({"cluster", "start", "--dir", cluster_directory()});
  EXPECT_THAT(again.out, HasSubstr(console));
  EXPECT_THAT(status().out, HasSubstr("monitor          alive"));
  EXPECT_THAT(status().out, HasSubstr(console));
  ASSERT_TRUE(eventually([&] { return knows_its_servers(3); }, seconds(20))) << page("/api/v1/overview");
  EXPECT_THAT(page("/"), HasSubstr("<title>Kintsugi console</title>"));
  EXPECT_THAT(page("/console.js"), HasSubstr("Content-Type: text/javascript"));
  EXPECT_EQ(api("servers").at("servers").size(), 3u);
  ASSERT_TRUE(eventually(
      [&] { return api("overview").at("data").at("sentence") == "No data is stored yet."; }, seconds(20)))
      << page("/api/v1/overview");
  ASSERT_EQ(kintsugi({"put", make_file("file", 300'000, 1), "/file"}).exit_code, 0);
  const auto is_whole = [&] {
    const std::string sentence = api("overview").at("data").at("sentence");
    return sentence.ends_with("whole.");
  };
  EXPECT_TRUE(eventually(is_whole, seconds(10))) << page("/api/v1/overview");
  for (const char* name : {"processes", "alarms", "repairs", "devices", "regions"})
    EXPECT_TRUE(api(name).is_object()) << name;
  EXPECT_THAT(page("/metrics"), HasSubstr("kintsugi_monitor_alarms 0"));
  const Outcome healthy = kintsugi({"diagnose"});
  EXPECT_EQ(healthy.exit_code, 0) << healthy.out << healthy.err;
  EXPECT_THAT(healthy.out, HasSubstr("of 3 servers report"));
  EXPECT_EQ(kintsugi({"cluster", "stop", "--dir", cluster_directory()}).exit_code, 0);
  EXPECT_NE(status().exit_code, 0);
  EXPECT_EQ(pid_of("monitor"), -1);
}

TEST_F(Monitor, NamesWhoIsStuckAlsoAfterItWasKilledInTheMiddleOfIt) {
  start({"--chunkservers", "3", "--policy", "rs-2-1-64k"});
  StuckProcess stuck(cluster_json().at("monitor"), cluster_directory() + "/secret");
  const auto named = [&] {
    const Outcome outcome = kintsugi({"diagnose"});
    return outcome.exit_code == 1 && outcome.out.find("the made up client") != std::string::npos;
  };
  ASSERT_TRUE(eventually(named, seconds(20))) << kintsugi({"diagnose"}).out;
  const Outcome told = kintsugi({"diagnose"});
  EXPECT_THAT(told.out, HasSubstr("1 culprit"));
  EXPECT_EQ(std::count(told.err.begin(), told.err.end(), '\n'), 1) << told.err;
  const Json json = Json::parse(kintsugi({"diagnose", "--json"}).out, nullptr, false);
  ASSERT_TRUE(json.is_object());
  ASSERT_EQ(json.at("verdicts").size(), 1u);
  EXPECT_EQ(json.at("verdicts")[0].at("server"), "the made up client");
  EXPECT_EQ(json.at("verdicts")[0].at("kind"), "running");
  const auto id = json.at("verdicts")[0].at("id");
  EXPECT_EQ(api("alarms").at("standing").size(), 1u);

  kill9("monitor");
  EXPECT_EQ(status().exit_code, 1) << "it is missed";
  ASSERT_EQ(kintsugi({"put", make_file("file", 300'000, 1), "/file"}).exit_code, 0) << "by nobody else";
  EXPECT_EQ(kintsugi({"cat", "/file"}).out, read_file(path("file")));
  restart_missing();
  ASSERT_TRUE(eventually(named, seconds(10))) << kintsugi({"diagnose"}).out;
  EXPECT_EQ(Json::parse(kintsugi({"diagnose", "--json"}).out).at("verdicts")[0].at("id"), id);

  // When the metaserver hangs, the monitor is asked where the environment says that it is.
  send("metaserver", SIGSTOP);
  std::vector<std::string> there = environment();
  there.push_back("KINTSUGI_MONITOR=" + cluster_json().at("monitor").get<std::string>());
  const Outcome hanging = run_command(command({"diagnose"}), there);
  send("metaserver", SIGCONT);
  EXPECT_EQ(hanging.exit_code, 1);
  EXPECT_THAT(hanging.out, HasSubstr("the made up client")) << hanging.err;
}

TEST_F(Monitor, MissesTheMetaserverOfAnIdleCluster) {
  start({"--chunkservers", "3", "--policy", "rs-2-1-64k"});
  ASSERT_TRUE(eventually(
      [&] { return kintsugi({"diagnose"}).out.find("3 of 3 servers report") != std::string::npos; },
      seconds(30)));
  ASSERT_EQ(kintsugi({"diagnose"}).exit_code, 0);
  kill9("metaserver");
  const auto alarm_stands = [&] {
    const Json alarms = api("alarms").at("standing");
    return std::ranges::any_of(alarms, [](const Json& alarm) {
      return alarm.at("process_kind") == "metaserver" && alarm.at("kind") == "silent";
    });
  };
  EXPECT_TRUE(eventually(alarm_stands, seconds(10))) << page("/api/v1/alarms");
  EXPECT_FALSE(api("overview").at("metaserver").at("answers")) << "no green picture";
  const Json part = api("servers").at("parts").at(0);
  EXPECT_EQ(part.at("kind"), "metaserver");
  EXPECT_FALSE(part.at("answers"));
  EXPECT_FALSE(part.at("alarms").empty());

  std::vector<std::string> there = environment();
  const Outcome unasked = run_command(command({"diagnose"}), there);
  EXPECT_EQ(unasked.exit_code, 1);
  EXPECT_THAT(unasked.err, HasSubstr("the metaserver cannot be reached"));
  there.push_back("KINTSUGI_MONITOR=" + cluster_json().at("monitor").get<std::string>());
  const Outcome asked = run_command(command({"diagnose", "--history"}), there);
  EXPECT_EQ(asked.exit_code, 1);
  EXPECT_THAT(asked.out, HasSubstr("metaserver: does not report and answers nobody"));
  EXPECT_THAT(asked.out, HasSubstr("active: metaserver")) << "the alarm is part of the history, too";
  EXPECT_THAT(asked.err, HasSubstr("the metaserver does not answer"));
  restart_missing();
  EXPECT_TRUE(eventually([&] { return kintsugi({"diagnose"}).exit_code == 0; }, seconds(20)))
      << kintsugi({"diagnose"}).out;
}

TEST_F(Monitor, ThatStoodStillItselfAccusesNobody) {
  start({"--chunkservers", "3", "--policy", "rs-2-1-64k"});
  StuckProcess healthy(cluster_json().at("monitor"), cluster_directory() + "/secret", /*stuck=*/false);
  const auto reports = [&] {
    const Json processes = Json::parse(kintsugi({"diagnose", "--json"}).out).at("processes");
    return std::ranges::any_of(processes, [](const Json& process) {
      return process.at("name") == "the made up client" && process.at("silent_s") < 2;
    });
  };
  ASSERT_TRUE(eventually(reports, seconds(20)));
  send("monitor", SIGSTOP);
  std::this_thread::sleep_for(seconds(8));
  send("monitor", SIGCONT);
  ASSERT_TRUE(eventually(reports, seconds(20)));
  std::this_thread::sleep_for(seconds(5));
  const Json answer = Json::parse(kintsugi({"diagnose", "--json", "--history"}).out);
  EXPECT_TRUE(answer.at("verdicts").empty()) << answer;
  EXPECT_TRUE(answer.at("history").empty()) << answer;
}

TEST_F(Monitor, OfAClusterFromBeforeThereWereMonitorsIsAddedByItsNextStart) {
  start({"--chunkservers", "3", "--policy", "rs-2-1-64k"});
  ASSERT_EQ(kintsugi({"cluster", "stop", "--dir", cluster_directory()}).exit_code, 0);
  Json older = cluster_json();
  older.erase("monitor");
  older.erase("monitor_http");
  std::ofstream(cluster_directory() + "/cluster.json") << older.dump(2);
  std::filesystem::remove(cluster_directory() + "/etc/monitor.toml");
  std::filesystem::remove_all(cluster_directory() + "/data/monitor");
  restart_missing();
  EXPECT_THAT(status().out, HasSubstr("monitor          alive"));
  EXPECT_THAT(read_file(cluster_directory() + "/env"), HasSubstr("export KINTSUGI_MONITOR='127.0.0.1:"));
  ASSERT_TRUE(eventually([&] { return knows_its_servers(3); }, seconds(20)));
}

TEST_F(Monitor, SnapshotsAreAnalysedWithoutACluster) {
  start({"--chunkservers", "3", "--policy", "rs-2-1-64k"});
  StuckProcess stuck(cluster_json().at("monitor"), cluster_directory() + "/secret");
  ASSERT_TRUE(eventually([&] { return kintsugi({"diagnose"}).exit_code == 1; }, seconds(20)));
  std::this_thread::sleep_for(seconds(3));
  stuck.stop();
  ASSERT_EQ(kintsugi({"cluster", "stop", "--dir", cluster_directory()}).exit_code, 0);
  const std::string program =
      std::filesystem::path(command({}).front()).parent_path().string() + "/kintsugi-monitor";
  const Outcome analysed = run_command({program, "analyse", cluster_directory() + "/data/monitor"});
  EXPECT_EQ(analysed.exit_code, 0) << analysed.err;
  EXPECT_THAT(analysed.out, HasSubstr("the made up client"));
  std::istringstream lines(analysed.out);
  for (std::string line; std::getline(lines, line);)
    EXPECT_TRUE(Json::parse(line, nullptr, false).is_object()) << line;
  const Outcome windows =
      run_command({program, "analyse", "--windows", cluster_directory() + "/data/monitor"});
  EXPECT_EQ(windows.exit_code, 0) << windows.err;
  EXPECT_EQ(
      run_command({program, "analyse", "--windows", "--method", "waits", cluster_directory()}).exit_code, 2);
  EXPECT_EQ(run_command({program, "analyse"}).exit_code, 2);
  EXPECT_EQ(run_command({program, "analyse", "--method", "magic", "x"}).exit_code, 2);
  EXPECT_EQ(run_command({program, "analyse", path("nothing")}).exit_code, 1);
}

}  // namespace
}  // namespace kintsugi::processes
