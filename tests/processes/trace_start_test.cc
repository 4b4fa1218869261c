// Recordings that begin later than they are asked for, and one that a signal begins. Only builds that leave sleds in a chunkserver run
// these (KINTSUGI_SLEDS).
#include <csignal>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>

#include "tests/processes/process_cluster.h"

namespace kintsugi::processes {
namespace {

using std::chrono::seconds;
using ::testing::HasSubstr;

class TraceStart : public ProcessCluster {
 protected:
  void SetUp() override {
    ProcessCluster::SetUp();
    ASSERT_NO_FATAL_FAILURE(start({"--chunkservers", "3", "--policy", "rs-2-1-64k"}));
    ASSERT_NO_FATAL_FAILURE(skip_without_sleds());
    if (IsSkipped()) return;
    // Of one stripe a server may have the parity, which nobody reads.
    ASSERT_EQ(kintsugi({"mkdir", "/all"}).exit_code, 0);
    for (unsigned i = 0; i < 6; ++i)
      ASSERT_EQ(kintsugi({"put", make_file("large" + std::to_string(i), 2 << 20, i), "/all"}).exit_code, 0);
  }

  /// Reads the files again and again.
  BackgroundCommand reads() const {
    const std::string get = command({}).front() + " get --replace /all " + path("back");
    return BackgroundCommand({"/bin/bash", "-c", "while :; do " + get + " > /dev/null 2>&1; sleep 0.1; done"},
                             environment());
  }
  /// The command runs beside the test; what it prints stands in `said`.
  std::unique_ptr<BackgroundCommand> attach(std::vector<std::string> arguments) const {
    std::vector<std::string> line{"/bin/bash", "-c", "exec \"$@\" > " + path("said") + " 2>&1", "bash"};
    arguments.insert(arguments.begin(), {"trace", "attach"});
    const auto ours = command(arguments);
    line.insert(line.end(), ours.begin(), ours.end());
    return std::make_unique<BackgroundCommand>(line, environment());
  }
  std::string said() const { return read_file(path("said")); }
  bool is(const std::string& phase) const {
    return kintsugi({"trace", "status", "chunkserver-1"}).out.starts_with(phase);
  }
  void fault(const std::vector<std::string>& arguments) const {
    std::vector<std::string> line{"fault", "set", "chunkserver-1"};
    line.insert(line.end(), arguments.begin(), arguments.end());
    const Outcome set = kintsugi(line);
    ASSERT_EQ(set.exit_code, 0) << set.err;
  }
  void expect_refused(const std::vector<std::string>& arguments, const std::string& why) const {
    std::vector<std::string> line{"trace", "attach"};
    line.insert(line.end(), arguments.begin(), arguments.end());
    const Outcome refused = kintsugi(line);
    EXPECT_EQ(refused.exit_code, 1) << refused.out;
    EXPECT_THAT(refused.err, HasSubstr(why));
    EXPECT_EQ(std::ranges::count(refused.err, '\n'), 1) << refused.err;
  }
};

TEST_F(TraceStart, IsARequestThatTakesLong) {
  const BackgroundCommand load = reads();
  const auto recording = attach({"chunkserver-1", "--start", "slow:ReadChunk:700ms", "--for", "100s",
                                 "--record-for", "2s", "--out", path("trace")});
  ASSERT_TRUE(eventually([&] { return is("waiting for the start event"); }, seconds(30))) << said();
  fault({"serve-stream", "delay", "--detail", "ReadChunk", "--delay", "2", "--times", "1"});
  EXPECT_EQ(recording->exit_code(), 0) << said();
  EXPECT_THAT(said(), HasSubstr("ended\n"));
  EXPECT_THAT(
      said(),
      ::testing::ContainsRegex(
          "Began 20..-..-.. ..:..:......: a ReadChunk has been served for [0-9.]+ ms, more than 700.0 ms"));
  const Outcome shown = kintsugi({"trace", "show", path("trace")});
  EXPECT_THAT(shown.out, HasSubstr("chunkserver::")) << "what it did from then on is recorded";
}

TEST_F(TraceStart, IsATime) {
  const BackgroundCommand load = reads();
  const Outcome ended = kintsugi({"trace", "attach", "chunkserver-1", "--start", "after:300ms", "--for",
                                  "60s", "--record-for", "500ms", "--out", path("trace")});
  EXPECT_EQ(ended.exit_code, 0) << ended.err;
  EXPECT_THAT(ended.out, HasSubstr(": its time had come\n"));
  EXPECT_EQ(kintsugi({"trace", "show", path("trace")}).exit_code, 0);
  expect_refused({"chunkserver-1", "--start", "at:25:00"}, "at:25:00 is no time: at:HH:MM or at:HH:MM:SS");
  expect_refused({"chunkserver-1", "--start", "after:20s", "--for", "10s"},
                 "would begin when its time is over");
}

TEST_F(TraceStart, ThatDoesNotComeIsToldWithinItsTime) {
  const Outcome idle = kintsugi({"trace", "attach", "chunkserver-1", "--start", "slow:VerifyChunks:1s",
                                 "--for", "200ms", "--out", path("trace")});
  EXPECT_EQ(idle.exit_code, 0) << idle.err;
  EXPECT_THAT(idle.out, HasSubstr("Nothing was recorded: no VerifyChunks came meanwhile.\n"));
  EXPECT_FALSE(std::filesystem::exists(path("trace")));
  expect_refused({"chunkserver-1", "--start", "slow:Stat:1s"}, "does not serve \"Stat\"");
  expect_refused({"chunkserver-1", "--start", "slow:ReadChunk:quick"}, "slow:METHOD:TIME");
  const Outcome well = kintsugi({"trace", "attach", "chunkserver-2", "--start", "verdict", "--for", "1s"});
  EXPECT_EQ(well.exit_code, 0) << well.err;
  EXPECT_EQ(well.out, "Nothing was recorded: no verdict named it meanwhile.\n");
  expect_refused({"culprit"}, "it takes --start verdict");
}

TEST_F(TraceStart, IsAVerdictAndTheServersThatItNamesRecord) {
  const auto recording = attach(
      {"culprit", "--start", "verdict", "--for", "100s", "--record-for", "1s", "--out", path("trace")});
  fault({"serve-stream", "hang", "--detail", "ReadChunk"});
  const BackgroundCommand load = reads();
  EXPECT_EQ(recording->exit_code(), 0) << said();
  EXPECT_THAT(said(), ::testing::ContainsRegex("Began 20.*chunkserver-1"));
  EXPECT_THAT(said(), HasSubstr("chunkserver-1 (127.0.0.1:"));
  size_t traces = 0;
  for (const auto& entry : std::filesystem::directory_iterator(path("")))
    traces += entry.path().filename().string().starts_with("trace.127.0.0.1:");
  EXPECT_EQ(traces, 1u) << said();
  EXPECT_EQ(kintsugi({"fault", "clear", "chunkserver-1"}).exit_code, 0);
}

TEST_F(TraceStart, IsASignalForAProcessWhoseEventLoopStandsStill) {
  const std::string pid = "pid:" + std::to_string(pid_of("chunkserver-1"));
  fault({"disk-read", "cpu-loop", "--delay", "8", "--times", "1"});
  const BackgroundCommand load = reads();
  const auto stands_still = [&] {
    const std::string get = "timeout 1 " + command({}).front() + " trace status chunkserver-1";
    return run_command({"/bin/bash", "-c", get}, environment()).exit_code == 124;
  };
  ASSERT_TRUE(eventually(stands_still, seconds(60)));
  const Outcome recorded =
      kintsugi({"trace", "attach", pid, "--signal", "--for", "500ms", "--out", path("trace")});
  EXPECT_EQ(recorded.exit_code, 0) << recorded.err;
  EXPECT_TRUE(stands_still()) << "it was recorded meanwhile";
  EXPECT_THAT(recorded.out, HasSubstr(": a signal came\n"));
  EXPECT_EQ(kintsugi({"trace", "show", path("trace")}).exit_code, 0);
  EXPECT_TRUE(eventually([&] { return is("ended"); }, seconds(30)));
  EXPECT_TRUE(healthy());
}

TEST_F(TraceStart, IsNoSignalWhileOthersRecordAndNeitherIsTheirTraceTakenForItsOwn) {
  const auto stays = attach({"chunkserver-1", "--for", "100s"});
  ASSERT_TRUE(eventually([&] { return is("recording\n"); }, seconds(30))) << said();
  BackgroundCommand leaves(command({"trace", "attach", "chunkserver-1", "--for", "5s"}), environment());
  ASSERT_TRUE(eventually([&] { return is("recording, for 2 commands\n"); }, seconds(5)));
  // The one that leaves gets a copy, which is a new trace of the same process.
  expect_refused({"pid:" + std::to_string(pid_of("chunkserver-1")), "--signal", "--out", path("trace")},
                 "does not record: it is being traced already, or its log says why not");
  EXPECT_FALSE(std::filesystem::exists(path("trace")));
  EXPECT_EQ(leaves.exit_code(), 0);
  EXPECT_EQ(kintsugi({"trace", "detach", "chunkserver-1"}).exit_code, 0);
  EXPECT_EQ(stays->exit_code(), 0) << said();
}

TEST_F(TraceStart, IsASignalThatOneThreadOfEachDaemonTakes) {
  for (const std::string daemon : {"metaserver", "chunkserver-1", "repair-manager-1", "monitor"}) {
    const std::string tasks = "/proc/" + std::to_string(pid_of(daemon)) + "/task";
    std::vector<std::string> takers;
    for (const auto& task : std::filesystem::directory_iterator(tasks)) {
      std::ifstream status(task.path() / "status");
      uint64_t blocked = ~uint64_t{0};
      for (std::string word; status >> word;)
        if (word == "SigBlk:") status >> std::hex >> blocked >> std::dec;
      if ((blocked >> (47 - 1) & 1) == 0) takers.push_back(read_file((task.path() / "comm").string()));
    }
    EXPECT_THAT(takers, ::testing::ElementsAre("trace-signal\n")) << daemon;
  }
}

TEST_F(TraceStart, IsNoSignalForWhoeverHasNoHandler) {
  // A program of another name, one of ours without the handler, and one of another user.
  const std::string foreign = path("kintsugi-of-another-kind");
  std::filesystem::copy_file("/bin/sleep", foreign);
  BackgroundCommand other({"/bin/sleep", "1000"}, {}), without({foreign, "1000"}, {});
  const auto named = [](const BackgroundCommand& command) { return "pid:" + std::to_string(command.pid()); };
  ASSERT_TRUE(eventually(
      [&] {
        return std::filesystem::read_symlink("/proc/" + std::to_string(without.pid()) + "/exe").filename() ==
               "kintsugi-of-another-kind";
      },
      seconds(10)));
  ASSERT_TRUE(eventually(
      [&] {
        return std::filesystem::read_symlink("/proc/" + std::to_string(other.pid()) + "/exe").filename() ==
               "sleep";
      },
      seconds(10)));
  expect_refused({named(other), "--signal"}, "is sleep, and none of Kintsugi's: it was left alone");
  expect_refused({named(without), "--signal"},
                 "has no handler for signal 47, which would end it: it was left alone");
  expect_refused({"chunkserver-1", "--signal"}, "pid:NUMBER, not chunkserver-1");
  expect_refused({named(other), "--signal", "--follow"}, "--signal takes --for and --out");
  EXPECT_TRUE(other.running());
  EXPECT_TRUE(without.running());
  EXPECT_TRUE(without.send(SIGKILL));
  (void)without.exit_code();
  expect_refused({named(without), "--signal"}, "pid");
  if (::geteuid() != 0) return;
  const std::string pid = "pid:" + std::to_string(pid_of("chunkserver-1"));
  std::vector<std::string> line{"/usr/bin/setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"};
  const auto ours = command({"trace", "attach", pid, "--signal"});
  line.insert(line.end(), ours.begin(), ours.end());
  const Outcome refused = run_command(line, environment());
  if (refused.exit_code == 127 || refused.exit_code == 126)
    return;  // that user cannot run the program where it lies
  EXPECT_THAT(refused.err, HasSubstr("is another user's: that user, and root, may have it record itself"));
}

TEST_F(TraceStart, DirectivesOfAFileAreTakenOrRefusedWithTheirLine) {
  const auto write = [&](const std::string& name, const std::string& text) {
    std::ofstream(path(name)) << text;
    return path(name);
  };
  const BackgroundCommand load = reads();
  const std::string trace = path("trace");
  const std::string good = write("good",
                                 "begin chunkserver::ChunkStore::open:entry arg1 as opened\n"
                                 "idle boost::asio::detail::scheduler::do_run_won\n");
  ASSERT_EQ(
      kintsugi({"trace", "attach", "chunkserver-1", "--directives", good, "--for", "5s", "--out", trace})
          .exit_code,
      0);
  const Outcome ours = kintsugi({"trace", "explain", trace}),
                by_rules = kintsugi({"trace", "explain", trace, "--rules-only"});
  EXPECT_EQ(ours.exit_code, 0) << ours.err;
  EXPECT_EQ(ours.err, "");
  EXPECT_EQ(by_rules.exit_code, 0) << by_rules.err;
  EXPECT_THAT(ours.out, HasSubstr("ReadChunk, "));
  EXPECT_NE(ours.out, by_rules.out);
  const Outcome told = kintsugi({"trace", "explain", trace, "--directives", good});
  EXPECT_EQ(told.exit_code, 0) << told.err;
  EXPECT_THAT(
      told.err,
      HasSubstr(good + ": line 2: no recorded program has a function "
                       "boost::asio::detail::scheduler::do_run_won with room for tracing (did you mean "
                       "boost::asio::detail::scheduler::do_run_one?)\n"));
  const std::string bad = write("bad", "# a comment\nbegni f:entry arg1 as job\n");
  const std::vector<std::vector<std::string>> takers{
      {"trace", "explain", trace}, {"trace", "export", trace}, {"trace", "attach", "chunkserver-1"}};
  for (std::vector<std::string> command : takers) {
    command.insert(command.end(), {"--directives", bad});
    const Outcome refused = kintsugi(command);
    EXPECT_EQ(refused.exit_code, 1);
    EXPECT_THAT(
        refused.err,
        HasSubstr(bad +
                  ": line 2: \"begni\" is neither begin, use, end, idle, others nor aside (did you mean "
                  "\"begin\"?)\n"));
  }
  EXPECT_EQ(kintsugi({"trace", "explain", trace, "--directives", good, "--rules-only"}).exit_code, 1);
  EXPECT_THAT(kintsugi({"trace", "explain", trace, "--least", "1"}).err,
              HasSubstr("--least needs runs that were well: --normal"));
  EXPECT_THAT(kintsugi({"trace", "explain", trace, "--normal", trace, "--least", "-1"}).err,
              HasSubstr("--least: -1 is not a number from 0 on"));
  EXPECT_EQ(kintsugi({"trace", "explain", trace, "--normal", trace, "--least", "1"}).exit_code, 0);
}

}  // namespace
}  // namespace kintsugi::processes
