// A mount is traced, and what an application asks it for is followed into the servers. Builds of tests have sleds in mounts and
// chunkservers; of the others their frames are recorded (KINTSUGI_SLEDS).
#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "common/proto/sight.pb.h"
#include "common/rpc/client.h"
#include "common/rpc/secret.h"
#include "common/runtime/production/production_runtime.h"
#include "common/runtime/production/run.h"
#include "tests/processes/mounts.h"

namespace kintsugi::processes {
namespace {

using Json = nlohmann::json;
using std::chrono::seconds;
using ::testing::HasSubstr;

/// Fails, and says so in one line, which it returns.
std::string refusal(const Outcome& outcome) {
  EXPECT_EQ(outcome.exit_code, 1) << outcome.out;
  EXPECT_EQ(std::ranges::count(outcome.err, '\n'), 1) << outcome.err;
  return outcome.err;
}

class MountTracing : public Mounts {
 protected:
  /// Mounts, and waits until the monitor has heard of it.
  void start_traced(const std::vector<std::string>& options = {}) {
    start({"--chunkservers", "5", "--policy", "rs-3-2-64k", "--repair-delay", "0"});
    local_ = make_file("large", (1 << 20) + 77, 1);
    ASSERT_EQ(kintsugi({"put", local_, "/large"}).exit_code, 0);
    directory_ = mount(options);
    Outcome status;
    ASSERT_TRUE(eventually(
        [&] {
          status = kintsugi({"trace", "status", directory_});
          return status.err.find("knows no mount") == std::string::npos &&
                 status.err.find("does not answer") == std::string::npos;
        },
        seconds(60)))
        << status.err;
    const Outcome tried = kintsugi({"trace", "attach", directory_, "--for", "1ms"});
    if (tried.exit_code == 0) return;
    EXPECT_THAT(refusal(tried), HasSubstr("it was built without sleds (KINTSUGI_SLEDS)"));
    GTEST_SKIP() << "this build leaves no sleds in mounts, and says so";
  }
  /// Has the mount and the servers that it asks record, and waits until it does.
  std::unique_ptr<BackgroundCommand> follow(const std::string& directory, const std::string& out) const {
    auto attach = std::make_unique<BackgroundCommand>(
        command({"trace", "attach", directory, "--follow", "--for", "100s", "--out", out}), environment());
    EXPECT_TRUE(eventually([&] { return records(directory); }, seconds(60)));
    return attach;
  }
  void expect_no_server_records() const {
    for (const std::string server : {"metaserver", "chunkserver-1", "chunkserver-2", "chunkserver-3"})
      EXPECT_FALSE(records(server)) << server;
  }
  pid_t process() const { return child_of(parent_of(directory_)); }
  bool records(const std::string& where) const {
    return kintsugi({"trace", "status", where}).out.starts_with("recording");
  }
  std::string local_, directory_;
};

TEST_F(MountTracing, FollowsAReadIntoTheServersAndBack) {
  ASSERT_NO_FATAL_FAILURE(start_traced());
  if (IsSkipped()) return;
  const std::string traces = path("traces");
  std::filesystem::create_directory(traces);
  const auto attach = follow(directory_ + "/", traces + "/trace");
  EXPECT_TRUE(read_file(directory_ + "/large") == read_file(local_));
  const std::string by_pid = "pid:" + std::to_string(process());
  EXPECT_TRUE(records(by_pid)) << by_pid;
  EXPECT_THAT(refusal(kintsugi({"trace", "attach", directory_, "--circular"})),
              HasSubstr("this process is being traced, for "));
  EXPECT_EQ(kintsugi({"trace", "detach", by_pid}).exit_code, 0);
  ASSERT_EQ(attach->exit_code(), 0) << "it is the other one's, which goes on";
  std::vector<std::string> files;
  for (const auto& each : std::filesystem::directory_iterator(traces))
    files.push_back(each.path());
  EXPECT_GE(files.size(), 5) << "the mount, the metaserver, and three chunkservers at least";
  // What the mount did is there, and in the flow of its read are answers of the metaserver or of three chunkservers.
  const Outcome shown = kintsugi({"trace", "show", traces + "/trace"});
  EXPECT_THAT(shown.out, HasSubstr("mount::FileOperations::read.resume"));
  std::vector<std::string> arguments{"trace", "export", "--out", path("mount.json")};
  arguments.insert(arguments.end(), files.begin(), files.end());
  const Outcome exported = kintsugi(arguments);
  ASSERT_EQ(exported.exit_code, 0) << exported.err;
  const Json chrome = Json::parse(read_file(path("mount.json")));
  std::map<int, std::string> names;
  std::map<int64_t, int> from;
  std::set<std::pair<std::string, std::string>> arrows;
  const auto binary = [&](int pid) { return names[pid].substr(0, names[pid].find(' ')); };
  for (const Json& event : chrome.at("traceEvents"))
    if (event.at("ph") == "M" && event.at("name") == "process_name")
      names[event.at("pid")] = event.at("args").at("name");
  std::map<int, std::set<int>> servers;  // chunkservers that a flow of the mount reached, by flow
  for (const Json& event : chrome.at("traceEvents")) {
    if (event.at("ph") == "s") from[event.at("id")] = event.at("pid");
    if (event.at("ph") != "f") continue;
    const int sender = from.at(event.at("id")), receiver = event.at("pid");
    arrows.insert({binary(sender), binary(receiver)});
    if (binary(sender) == "kintsugi-mount" && binary(receiver) == "kintsugi-chunkserver")
      servers[event.at("args").at("flow")].insert(receiver);
  }
  for (const char* const server : {"kintsugi-metaserver", "kintsugi-chunkserver"}) {
    EXPECT_TRUE(arrows.contains({"kintsugi-mount", server})) << server;
    EXPECT_TRUE(arrows.contains({server, "kintsugi-mount"})) << server;
  }
  size_t most = 0;
  for (const auto& [flow, reached] : servers)
    most = std::max(most, reached.size());
  EXPECT_GE(most, 3) << "one read asks three chunkservers";
  std::vector<std::string> explain{"trace", "explain"};
  explain.insert(explain.end(), files.begin(), files.end());
  const Outcome explained = kintsugi(explain);
  EXPECT_EQ(explained.exit_code, 0) << explained.err;
  EXPECT_THAT(explained.out, HasSubstr("ReadChunk, "));
  expect_no_server_records();
}

TEST_F(MountTracing, SaysWhyAMountIsNotTraced) {
  ASSERT_NO_FATAL_FAILURE(start_traced());
  if (IsSkipped()) return;
  const auto refused = [&](const std::vector<std::string>& arguments) {
    return refusal(kintsugi(arguments));
  };
  EXPECT_THAT(refused({"trace", "attach", "/no/mount"}), HasSubstr("the monitor knows no mount /no/mount"));
  EXPECT_THAT(refused({"trace", "attach", directory_ + "0"}), HasSubstr("the monitor knows no mount"));
  EXPECT_THAT(refused({"trace", "attach", "pid:1"}), HasSubstr("the monitor knows no mount pid:1"));
  EXPECT_THAT(refused({"trace", "attach", "pid:x"}), HasSubstr("pid:x names no process: pid:NUMBER"));
  EXPECT_THAT(refused({"trace", "attach", directory_, "--start", "method:ReadChunk"}),
              HasSubstr("no requests of methods come to a mount"));
}

/// Such a binary, made of one that has sleds: the section that lists them has another name. The names of sections lie at the end.
void write_without_sleds(const std::string& program, std::string bytes) {
  const size_t name = bytes.rfind(std::string("\0xray_instr_map\0", 16));
  if (name != std::string::npos) bytes[name + 1] = 'X';
  std::ofstream(program, std::ios::binary) << bytes;
  std::filesystem::permissions(program, std::filesystem::perms::owner_all);
}

TEST_F(MountTracing, OfABuildWithoutSledsIsRefusedInALine) {
  start({"--chunkservers", "3", "--policy", "rs-2-1-64k"});
  ASSERT_EQ(kintsugi({"put", make_file("small", 77, 1), "/small"}).exit_code, 0);
  const std::string program = path("kintsugi-mount");
  write_without_sleds(program, read_file(std::string(KINTSUGI_BINARIES) + "/kintsugi-mount"));
  const std::string directory = mount_by(program);
  ASSERT_TRUE(
      eventually([&] { return kintsugi({"trace", "status", directory}).exit_code == 0; }, seconds(60)));
  for (const std::vector<std::string>& more : {std::vector<std::string>{}, {"--follow"}}) {
    std::vector<std::string> attach{"trace", "attach", directory};
    attach.insert(attach.end(), more.begin(), more.end());
    EXPECT_THAT(refusal(kintsugi(attach)),
                HasSubstr(directory + ": this process cannot be traced: it was built without sleds"));
  }
  EXPECT_EQ(read_file(directory + "/small"), read_file(path("small")));
}

TEST_F(MountTracing, EndsWithTheProcessOfTheMountAndTheNextOneIsFound) {
  ASSERT_NO_FATAL_FAILURE(start_traced());
  if (IsSkipped()) return;
  const auto attach = follow(directory_, path("killed"));
  EXPECT_TRUE(read_file(directory_ + "/large") == read_file(local_));
  ASSERT_TRUE(eventually([&] { return records("metaserver"); }, seconds(60)));
  ASSERT_EQ(::kill(process(), SIGKILL), 0);
  EXPECT_EQ(attach->exit_code(), 1) << "what it asked has ended";
  expect_no_server_records();
  EXPECT_TRUE(eventually(
      [&] { return kintsugi({"trace", "attach", directory_, "--for", "1ms"}).exit_code == 0; }, seconds(60)));
  EXPECT_TRUE(read_file(directory_ + "/large") == read_file(local_));
}

TEST_F(MountTracing, OneOfTwoRecordsUntilItIsUnmounted) {
  ASSERT_NO_FATAL_FAILURE(start_traced());
  if (IsSkipped()) return;
  const std::string other = mount();
  ASSERT_TRUE(eventually([&] { return kintsugi({"trace", "status", other}).exit_code == 0; }, seconds(60)));
  const auto attach = follow(other, path("ended"));
  EXPECT_TRUE(read_file(other + "/large") == read_file(local_));
  EXPECT_FALSE(records(directory_));
  ASSERT_TRUE(eventually([&] { return records("metaserver"); }, seconds(60)));
  unmount(other);
  EXPECT_EQ(attach->exit_code(), 1) << "it does not wait for a mount that has ended";
  expect_no_server_records();
  EXPECT_EQ(kintsugi({"trace", "status", directory_}).exit_code, 0);
  (void)refusal(kintsugi({"trace", "attach", other}));
}

class MountTracingRights : public Mounts {
 protected:
  void make_token(const std::string& role) const {
    const Outcome made = kintsugi({"token", "create", role, "--role", role, "--out", path(role)});
    ASSERT_EQ(made.exit_code, 0) << made.err;
  }
  /// Another user of the same host, who has a token and not the secret.
  Outcome as(const std::string& token, const std::vector<std::string>& arguments) const {
    std::vector<std::string> line{"/usr/bin/env", "-u", "KINTSUGI_SECRET_FILE",
                                  "KINTSUGI_TOKEN_FILE=" + path(token)};
    const std::vector<std::string> ours = command(arguments);
    line.insert(line.end(), ours.begin(), ours.end());
    return run_command(line, environment());
  }
};

TEST_F(MountTracingRights, AMountWithATokenIsNotAsked) {
  start({"--chunkservers", "3", "--policy", "rs-2-1-64k"});
  ASSERT_NO_FATAL_FAILURE(make_token("write"));
  const std::string directory = mount({"--token-file", path("write")});
  Outcome tried;
  EXPECT_TRUE(eventually(
      [&] {
        tried = kintsugi({"trace", "attach", directory});
        return tried.err.find("it was mounted with a token") != std::string::npos;
      },
      seconds(60)))
      << tried.err;
  (void)refusal(tried);
}

TEST_F(MountTracingRights, AMountWithTheSecretRefusesOtherUsersWithTokens) {
  start({"--chunkservers", "3", "--policy", "rs-2-1-64k"});
  ASSERT_NO_FATAL_FAILURE(make_token("admin"));
  ASSERT_NO_FATAL_FAILURE(make_token("read"));
  const std::string directory = mount();
  ASSERT_TRUE(
      eventually([&] { return kintsugi({"trace", "status", directory}).exit_code == 0; }, seconds(60)));
  // Servers do take an administrator's token, as soon as they know which ones are revoked.
  ASSERT_TRUE(
      eventually([&] { return as("admin", {"trace", "status", "metaserver"}).exit_code == 0; }, seconds(60)));
  for (const char* const action : {"status", "attach", "detach"}) {
    EXPECT_THAT(refusal(as("admin", {"trace", action, directory})),
                HasSubstr("a mount is traced with the cluster's secret, and with no token"));
    EXPECT_THAT(refusal(as("read", {"trace", action, directory})), HasSubstr("token"));
  }
  EXPECT_THAT(kintsugi({"trace", "status", directory}).out, HasSubstr("not traced yet"));
}

/// Mounts that only exist in what the monitor was told.
class MountReports : public ProcessCluster {
 protected:
  void report(const std::string& host, const std::string& directory, const std::string& address) {
    proto::SightReport report = next_report("mount");
    report.set_host(host);
    report.mutable_mount()->set_directory(directory);
    report.mutable_mount()->set_trace_address(address);
    tell({report});
  }
  proto::SightReport next_report(const std::string& kind) {
    proto::SightReport report;
    report.set_process(++last_process_);
    report.set_kind(kind);
    report.set_name("made up");
    report.set_sequence(1);
    report.set_pid(static_cast<uint32_t>(1'000'000 + last_process_));
    return report;
  }
  void tell(const std::vector<proto::SightReport>& reports) const {
    runtime::ProductionRuntime production;
    const Json cluster = Json::parse(read_file(cluster_directory() + "/cluster.json"));
    const auto monitor = runtime::Endpoint::parse(cluster.at("monitor").get<std::string>());
    const auto secret = rpc::Secret::load(cluster_directory() + "/secret");
    ASSERT_TRUE(secret && monitor);
    rpc::Client client(production.runtime(), *secret);
    for (const proto::SightReport& report : reports) {
      proto::SightReportAnswer answer;
      const Context limited = Context{}.with_deadline(production.runtime().clock.now() + seconds(20));
      const Status told = runtime::run_on(
          production, client.call(limited, *monitor, rpc::Method::kSightReport, report, answer));
      EXPECT_TRUE(told.ok()) << told.to_string();
    }
    runtime::run_on(production, client.stop());
  }
  std::string refused(const std::string& where) const {
    return refusal(kintsugi({"trace", "attach", where}));
  }
  static std::string own_host() {
    std::string name(256, '\0');
    EXPECT_EQ(::gethostname(name.data(), name.size() - 1), 0);
    return name.c_str();
  }
  uint64_t last_process_ = 1000;
};

TEST_F(MountReports, SayWhereAMountIsAndMislead) {
  start({"--chunkservers", "3", "--policy", "rs-2-1-64k"});
  ASSERT_TRUE(eventually([&] { return kintsugi({"diagnose"}).err.find("monitor") == std::string::npos; },
                         seconds(60)));
  report("host-7", "/mnt/far", "127.0.0.1:9");
  EXPECT_THAT(refused("/mnt/far"), HasSubstr("/mnt/far is a mount of host-7: it is traced from that host"));
  EXPECT_THAT(refused("pid:" + std::to_string(1'000'000 + last_process_)), HasSubstr("is a mount of host-7"));
  for (const std::string elsewhere :
       {"10.0.0.9:4000", "0.0.0.0:1", "localhost:1", "127.0.0.1.example.com:1", "two\nlines", "127.0.0.1"}) {
    report(own_host(), "/mnt/near", elsewhere);
    EXPECT_THAT(refused("/mnt/near"), HasSubstr("/mnt/near is said to listen at ")) << elsewhere;
  }
  report(own_host(), "/mnt/near", "");
  EXPECT_THAT(refused("/mnt/near"), HasSubstr("it was mounted with a token")) << "the last one counts";
  EXPECT_THAT(refused("/mnt//other/.././near/"), HasSubstr("it was mounted with a token"));
  // Names that begin each other, and one that is more than a line.
  report("host-8", "/mnt/near/er", "127.0.0.1:9");
  report("host-9\nhost-10", "/mnt/a\nb", "127.0.0.1:9");
  EXPECT_THAT(refused("/mnt/near/er"), HasSubstr("is a mount of host-8"));
  EXPECT_THAT(refused("/mnt/near"), HasSubstr("it was mounted with a token"));
  for (const std::string unknown : {"/", "/mnt", "/mnt/nea", "/mnt/near/e", "/MNT/near", "/mnt/a", "pid:0",
                                    "pid:", "pid:1001", "pid:-1", "pid:99999999999", "pid:1000001x"})
    EXPECT_THAT(refused(unknown), HasSubstr(unknown));
  EXPECT_THAT(refused("/mnt/a\nb"), HasSubstr("host-9"));
  // One that is there no more: nobody listens at the port.
  report(own_host(), "/mnt/ended", "127.0.0.1:9");
  EXPECT_THAT(refused("/mnt/ended"), HasSubstr("/mnt/ended"));
}

TEST_F(MountReports, AreToldBeforeThoseOfManyOthers) {
  start({"--chunkservers", "3", "--policy", "rs-2-1-64k"});
  ASSERT_TRUE(eventually([&] { return kintsugi({"diagnose"}).err.find("monitor") == std::string::npos; },
                         seconds(60)));
  std::vector<proto::SightReport> others;
  for (int i = 0; i < 1100; ++i) {
    others.push_back(next_report("client"));
    others.back().set_host(std::string(400, 'x'));
    others.back().set_name(std::string(400, 'y'));
  }
  tell(others);
  report("host-7", "/mnt/last", "127.0.0.1:9");
  EXPECT_THAT(refused("/mnt/last"), HasSubstr("/mnt/last is a mount of host-7"));
  // Names and directories as long as they may be do not make the answer too large.
  std::vector<proto::SightReport> mounts;
  for (int i = 0; i < 1100; ++i) {
    mounts.push_back(next_report("mount"));
    mounts.back().set_host(std::string(512, 'x'));
    mounts.back().set_name(std::string(512, 'y'));
    mounts.back().mutable_mount()->set_directory(std::string(512, 'z'));
    mounts.back().mutable_mount()->set_trace_address(std::string(512, '1'));
  }
  tell(mounts);
  EXPECT_THAT(refused("/mnt/last"), HasSubstr("/mnt/last is a mount of host-7"));
}

}  // namespace
}  // namespace kintsugi::processes
