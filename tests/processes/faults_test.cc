// `kintsugi fault` against real daemons: what it sets happens, what makes no sense changes nothing, and daemons that have no fault points say so.
#include <algorithm>
#include <csignal>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "tests/processes/process_cluster.h"

namespace kintsugi::processes {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;
using Json = nlohmann::json;

struct FaultCommand : ProcessCluster {
  Json faults(const std::string& where) const {
    return Json::parse(kintsugi({"fault", "list", where, "--json"}).out).at("faults");
  }
  void expect_refused(const std::vector<std::string>& words, const std::string& because) const {
    const Outcome outcome = kintsugi(words);
    EXPECT_NE(outcome.exit_code, 0);
    EXPECT_EQ(outcome.out, "");
    EXPECT_THAT(outcome.err, StartsWith("kintsugi: "));
    EXPECT_THAT(outcome.err, HasSubstr(because));
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  }
};

#ifdef KINTSUGI_FAULT_POINTS

TEST_F(FaultCommand, WhatItSetsHappensUntilItIsCleared) {
  start({"--chunkservers", "3", "--policy", "rs-2-1-64k"});
  // A method whose name is no part of another one's, which the monitor may call.
  const Outcome set = kintsugi({"fault", "set", "metaserver", "serve-call", "error", "--detail",
                                "MakeDirectory", "--times", "1", "--error", "corrupt"});
  EXPECT_EQ(set.exit_code, 0) << set.err;
  EXPECT_THAT(set.out,
              HasSubstr("error at serve-call, only MakeDirectory: reached 0 times, happened 0 times"));
  const Outcome failed = kintsugi({"mkdir", "/one"});
  EXPECT_NE(failed.exit_code, 0);
  EXPECT_THAT(failed.err, HasSubstr("as asked for at serve-call"));
  EXPECT_EQ(kintsugi({"mkdir", "/one"}).exit_code, 0) << "it was to happen once";
  ASSERT_EQ(faults("metaserver").size(), 1U);
  EXPECT_EQ(faults("metaserver")[0].at("happened"), 1);
  EXPECT_THAT(faults("metaserver")[0].at("file").get<std::string>(),
              EndsWith("common/rpc/server_connection.cc"));
  EXPECT_EQ(faults("metaserver")[0].at("region"), "serve.MakeDirectory");

  EXPECT_EQ(
      kintsugi({"fault", "set", "metaserver", "serve-call", "error", "--detail", "MakeDirectory"}).exit_code,
      0);
  EXPECT_NE(kintsugi({"mkdir", "/two"}).exit_code, 0);
  EXPECT_THAT(kintsugi({"fault", "clear", "metaserver"}).out, HasSubstr("no faults are set"));
  EXPECT_EQ(kintsugi({"mkdir", "/two"}).exit_code, 0);
}

TEST_F(FaultCommand, ADaemonWithACallThatNeverEndsStopsAllTheSame) {
  start({"--chunkservers", "4", "--policy", "rs-2-1-64k"});
  ASSERT_EQ(kintsugi({"fault", "set", "chunkserver-1", "serve-stream", "hang"}).exit_code, 0);
  const std::string file = make_file("file", 8'000'000, 5);
  BackgroundCommand put(command({"put", file, "/file"}), environment());
  ASSERT_TRUE(
      eventually([&] { return faults("chunkserver-1")[0].at("happened") > 0; }, std::chrono::seconds(30)));
  const std::string daemon = "/proc/" + std::to_string(pid_of("chunkserver-1")) + "/cmdline";
  send("chunkserver-1", SIGTERM);
  EXPECT_TRUE(eventually([&] { return read_file(daemon).empty(); }, std::chrono::seconds(40)));
  EXPECT_EQ(put.exit_code(), 0) << "others took its place";
}

TEST_F(FaultCommand, WhatMakesNoSenseGetsOneLineAndChangesNothing) {
  start({"--chunkservers", "3", "--policy", "rs-2-1-64k"});
  ASSERT_EQ(kintsugi({"fault", "set", "metaserver", "start-repair", "delay", "--delay", "0.5"}).exit_code, 0);
  const Json before = faults("metaserver");
  expect_refused({"fault", "set", "metaserver", "disk-raed", "hang"},
                 "there is no fault point 'disk-raed'; there are serve-call");
  expect_refused({"fault", "set", "metaserver", "disk-read", "hnag"},
                 "there is no fault 'hnag'; there are hang");
  expect_refused({"fault", "set", "metaserver", "disk-read", "error", "--error", "nonsense"}, "'nonsense'");
  expect_refused({"fault", "set", "metaserver", "disk-read", "leak", "--bytes", "5GiB"}, "at most an hour");
  expect_refused({"fault", "set", "metaserver", "disk-read", "delay", "--delay", "3601"}, "at most an hour");
  expect_refused({"fault", "set", "no-such-server", "disk-read", "hang"}, "no-such-server");
  expect_refused({"fault", "set", "metaserver", "disk-read", "delay", "--delay", "-1"}, "delay");
  expect_refused({"fault", "clear", "metaserver", "--number", "4711"}, "there is no fault 4711");
  EXPECT_EQ(faults("metaserver"), before);
}

#else

TEST_F(FaultCommand, DaemonsThatHaveNoFaultPointsSaySo) {
  start({"--chunkservers", "3", "--policy", "rs-2-1-64k"});
  for (const auto& words : {std::vector<std::string>{"fault", "list", "metaserver"},
                            {"fault", "set", "metaserver", "serve-call", "hang"},
                            {"fault", "clear", "metaserver"}})
    expect_refused(words, "built without fault points");
}

#endif

}  // namespace
}  // namespace kintsugi::processes
