// A mount is traced, and what an application asks it for is followed into the servers. Builds of tests have sleds in mounts and
// chunkservers; of the others their frames are recorded (KINTSUGI_SLEDS).
#include <algorithm>
#include <csignal>
#include <filesystem>
#include <map>
#include <set>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "tests/processes/mounts.h"

namespace kintsugi::processes {
namespace {

using Json = nlohmann::json;
using std::chrono::seconds;
using ::testing::HasSubstr;

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
    if (kintsugi({"trace", "attach", directory_, "--for", "1ms"}).err.find("KINTSUGI_SLEDS") !=
        std::string::npos)
      GTEST_SKIP() << "this build leaves no sleds in mounts";
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
  BackgroundCommand attach(
      command({"trace", "attach", directory_ + "/", "--follow", "--for", "100s", "--out", traces + "/trace"}),
      environment());
  ASSERT_TRUE(eventually([&] { return records(directory_); }, seconds(60)));
  EXPECT_TRUE(read_file(directory_ + "/large") == read_file(local_));
  const std::string by_pid = "pid:" + std::to_string(process());
  EXPECT_TRUE(records(by_pid)) << by_pid;
  EXPECT_EQ(kintsugi({"trace", "detach", by_pid}).exit_code, 0);
  ASSERT_EQ(attach.exit_code(), 0);
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
  for (const std::string server : {"metaserver", "chunkserver-1", "chunkserver-2", "chunkserver-3"})
    EXPECT_FALSE(records(server)) << server;
}

TEST_F(MountTracing, SaysWhyAMountIsNotTraced) {
  ASSERT_NO_FATAL_FAILURE(start_traced());
  if (IsSkipped()) return;
  const auto refused = [&](const std::vector<std::string>& arguments) {
    const Outcome outcome = kintsugi(arguments);
    EXPECT_EQ(outcome.exit_code, 1);
    EXPECT_EQ(std::ranges::count(outcome.err, '\n'), 1) << outcome.err;
    return outcome.err;
  };
  EXPECT_THAT(refused({"trace", "attach", "/no/mount"}), HasSubstr("the monitor knows no mount /no/mount"));
  EXPECT_THAT(refused({"trace", "attach", "pid:1"}), HasSubstr("the monitor knows no mount pid:1"));
  EXPECT_THAT(refused({"trace", "attach", "pid:x"}), HasSubstr("pid:x names no process: pid:NUMBER"));
  EXPECT_THAT(refused({"trace", "attach", directory_, "--start", "method:ReadChunk"}),
              HasSubstr("no requests of methods come to a mount"));
  // Whoever has the mount recorded is gone: its next process is another one, and it is found.
  ASSERT_EQ(::kill(process(), SIGKILL), 0);
  EXPECT_TRUE(eventually(
      [&] { return kintsugi({"trace", "attach", directory_, "--for", "1ms"}).exit_code == 0; }, seconds(60)));
  EXPECT_TRUE(read_file(directory_ + "/large") == read_file(local_));
}

TEST_F(MountTracing, OneOfTwoRecordsUntilItEnds) {
  ASSERT_NO_FATAL_FAILURE(start_traced());
  if (IsSkipped()) return;
  const std::string other = mount();
  ASSERT_TRUE(eventually([&] { return kintsugi({"trace", "status", other}).exit_code == 0; }, seconds(60)));
  BackgroundCommand attach(
      command({"trace", "attach", other, "--follow", "--for", "100s", "--out", path("ended")}),
      environment());
  ASSERT_TRUE(eventually([&] { return records(other); }, seconds(60)));
  EXPECT_TRUE(read_file(other + "/large") == read_file(local_));
  EXPECT_FALSE(records(directory_));
  ASSERT_TRUE(eventually([&] { return records("metaserver"); }, seconds(60)));
  unmount(other);
  EXPECT_EQ(attach.exit_code(), 1) << "it does not wait for a mount that has ended";
  for (const std::string server : {"metaserver", "chunkserver-1", "chunkserver-2", "chunkserver-3"})
    EXPECT_FALSE(records(server)) << server;
  EXPECT_EQ(kintsugi({"trace", "status", directory_}).exit_code, 0);
}

TEST_F(MountTracing, OfATokenIsRefused) {
  ASSERT_NO_FATAL_FAILURE(start({"--chunkservers", "3", "--policy", "rs-2-1-64k"}));
  ASSERT_EQ(kintsugi({"token", "create", "writer", "--role", "write", "--out", path("writer")}).exit_code, 0);
  const std::string directory = mount({"--token-file", path("writer")});
  Outcome status;
  EXPECT_TRUE(eventually(
      [&] {
        status = kintsugi({"trace", "attach", directory});
        return status.err.find("it was mounted with a token") != std::string::npos;
      },
      seconds(60)))
      << status.err;
}

}  // namespace
}  // namespace kintsugi::processes
