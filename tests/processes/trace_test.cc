// A chunkserver that serves is traced: what it is asked meanwhile it answers as ever, and afterwards its code is what it was.
// Only builds that leave sleds in it run these (KINTSUGI_SLEDS).
#include <csignal>
#include <cstdlib>
#include <fstream>

#include <elf.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include "tests/processes/process_cluster.h"

namespace kintsugi::processes {
namespace {

using ::testing::HasSubstr;

class Tracing : public ProcessCluster {
 protected:
  void SetUp() override {
    ProcessCluster::SetUp();
    ASSERT_NO_FATAL_FAILURE(start({"--chunkservers", "3", "--policy", "rs-2-1-64k"}));
    ASSERT_NO_FATAL_FAILURE(skip_without_sleds());
    if (IsSkipped()) return;
    large_ = make_file("large", (3 << 20) + 77, 1);
    small_ = make_file("small", 5000, 2);
    ASSERT_EQ(kintsugi({"put", large_, "/large"}).exit_code, 0);
    ASSERT_EQ(kintsugi({"put", small_, "/small"}).exit_code, 0);
  }

  /// Reads and writes again and again until it is stopped. Whatever fails, or comes back as something else, stands in `wrong`.
  BackgroundCommand load() const {
    const std::string tool = command({}).front();
    const std::string script =
        "cd " + path("") + "; while :; do " + tool +
        " get --replace /large back-large && cmp large back-large && " + tool +
        " get --replace /small back-small && cmp small back-small && " + tool +
        " put --replace large /again && " + tool +
        " get --replace /again back-again && cmp large back-again || date >> wrong; echo >> rounds; "
        "rm -f back-large back-small back-again; done 2>> errors";
    return BackgroundCommand({"/bin/bash", "-c", script}, environment());
  }
  size_t rounds() const { return read_file(path("rounds")).size(); }

  /// Waits until whatever the load did when this was called is done, and as much again.
  bool load_goes_on() const {
    return eventually([this, before = rounds()] { return rounds() > before + 1; }, std::chrono::seconds(60));
  }

  /// The code of the process: those pages of its binary that are executed.
  static std::string code_of(pid_t pid) {
    const std::string of_process = "/proc/" + std::to_string(pid);
    std::ifstream maps(of_process + "/maps");
    const int memory = ::open((of_process + "/mem").c_str(), O_RDONLY | O_CLOEXEC);
    std::string code;
    for (std::string line; std::getline(maps, line);) {
      if (line.find(" r-xp ") == std::string::npos || !line.ends_with("kintsugi-chunkserver")) continue;
      const uint64_t begin = std::stoull(line, nullptr, 16);
      const uint64_t end = std::stoull(line.substr(line.find('-') + 1), nullptr, 16);
      std::string part(end - begin, '\0');
      if (::pread(memory, part.data(), part.size(), static_cast<off_t>(begin)) == ssize_t(part.size()))
        code += part;
    }
    ::close(memory);
    return code;
  }

  /// Whether `function` is in a trace of chunkserver-1 that begins with `start`, and ends when the load has gone around.
  bool traced(const std::string& start, const std::string& function) const {
    const std::string file = path("trace");
    BackgroundCommand attach(
        command({"trace", "attach", "chunkserver-1", "--start", start, "--for", "100s", "--out", file}),
        environment());
    const auto records = [&] {
      return kintsugi({"trace", "status", "chunkserver-1"}).out.starts_with("recording");
    };
    EXPECT_TRUE(eventually(records, std::chrono::seconds(60)));
    EXPECT_TRUE(load_goes_on());
    EXPECT_EQ(kintsugi({"trace", "detach", "chunkserver-1"}).exit_code, 0);
    EXPECT_EQ(attach.exit_code(), 0);
    const Outcome show = kintsugi({"trace", "show", file});
    EXPECT_EQ(show.exit_code, 0) << show.err;
    return show.out.find(function) != std::string::npos;
  }

  std::string large_, small_;
};

TEST_F(Tracing, OfAChunkserverUnderLoadChangesNoAnswerAndLeavesNoTraceInItsCode) {
  const pid_t pid = pid_of("chunkserver-1");
  const std::string before = code_of(pid);
  ASSERT_FALSE(before.empty());
  const BackgroundCommand work = load();
  ASSERT_TRUE(load_goes_on());
  EXPECT_TRUE(traced("all", "chunkserver::ChunkService::write_chunk.resume"));
  EXPECT_TRUE(traced("method:ReadChunk", "chunkserver::ChunkService::read_chunk.resume"));
  EXPECT_TRUE(traced("ChunkService::write_chunk", "chunkserver::ChunkService::write_chunk.resume"));
  const char* const wanted = std::getenv("KINTSUGI_TRACE_ROUNDS");
  const int more = wanted != nullptr ? std::atoi(wanted) : 5;
  for (int round = 0; round < more && !HasFailure(); ++round)
    EXPECT_EQ(kintsugi({"trace", "attach", "chunkserver-1", "--for", "20ms"}).exit_code, 0);
  EXPECT_TRUE(load_goes_on());
  EXPECT_EQ(read_file(path("wrong")), "") << read_file(path("errors"));
  EXPECT_EQ(pid_of("chunkserver-1"), pid);
  EXPECT_TRUE(code_of(pid) == before);
  EXPECT_TRUE(healthy());
}

TEST_F(Tracing, EndsWhenWhoeverAskedInterruptsTheCommand) {
  BackgroundCommand attach(command({"trace", "attach", "chunkserver-1", "--circular", "--for", "100s"}),
                           environment());
  const auto status = [&] { return kintsugi({"trace", "status", "chunkserver-1"}).out; };
  ASSERT_TRUE(eventually([&] { return status().starts_with("recording"); }, std::chrono::seconds(60)));
  ASSERT_TRUE(attach.send(SIGINT));
  EXPECT_EQ(attach.exit_code(), 128 + SIGINT);
  EXPECT_TRUE(eventually([&] { return status().starts_with("ended"); }, std::chrono::seconds(10)));
}

TEST_F(Tracing, IsShownToAReaderWhoLeavesBeforeItsEnd) {
  const BackgroundCommand work = load();
  ASSERT_TRUE(load_goes_on());
  const std::string file = path("trace");
  ASSERT_EQ(kintsugi({"trace", "attach", "chunkserver-1", "--for", "2s", "--out", file}).exit_code, 0);
  const std::string show = "set -o pipefail; " + command({}).front() + " trace show " + file + " | head -n 1";
  const Outcome shown = run_command({"/bin/bash", "-c", show}, environment());
  EXPECT_EQ(shown.exit_code, 128 + SIGPIPE);
  EXPECT_EQ(shown.err, "");
}

TEST_F(Tracing, SeparatesRequestsAndIsReadByOtherTools) {
  const BackgroundCommand work = load();
  ASSERT_TRUE(traced("all", "chunkserver::ChunkService::write_chunk.resume"));
  // Every write of a chunk is a request, with what disks do for it, and none is in another one's.
  const std::string file = path("trace"), chrome = path("trace.json"), folded = path("trace.folded");
  const Outcome explained = kintsugi({"trace", "explain", file});
  EXPECT_EQ(explained.exit_code, 0) << explained.err;
  EXPECT_THAT(explained.out, HasSubstr("WriteChunk, "));
  ASSERT_EQ(kintsugi({"trace", "export", file, "--out", chrome}).exit_code, 0);
  ASSERT_EQ(kintsugi({"trace", "export", file, "--format", "folded", "--out", folded}).exit_code, 0);
  const Outcome read = run_command({"/usr/bin/python3", "-c", R"(
import collections, json, sys
begun, last, writes, disk = collections.defaultdict(list), {}, collections.Counter(), collections.Counter()
asked = set()
for event in json.load(open(sys.argv[1]))["traceEvents"]:
    if event["ph"] == "i" and event["args"]["frame"] == "received" and event["name"] == "WriteChunk":
        asked.add(event["args"]["flow"])
        assert int(event["args"]["call"], 16) != 0, event
    if event["ph"] not in "BE":
        continue
    lane = event["pid"], event["tid"]
    assert event["ts"] >= last.get(lane, 0), "time goes back"
    last[lane] = event["ts"]
    if event["ph"] == "E":
        begun[lane].pop()
        continue
    begun[lane].append(event["name"])
    if event["name"] == "chunkserver::WriteChunkHandler::receive.destroy":
        writes[event["args"]["flow"]] += 1
    if event["name"] == "chunkserver::DiskCalls::carry_out":
        disk[event["args"]["flow"]] += 1
assert not any(begun.values()), "a function does not end"
assert writes and set(writes.values()) == {1}, writes
assert asked & set(writes), f"clients are not recorded, and what they asked for is there: {asked}"
without = [flow for flow in writes if not disk[flow]]
assert len(without) <= 1, f"only of one that had begun before the recording, what its disk does may be missing: {without}"
for line in open(sys.argv[2]):
    path, _, nanoseconds = line.rpartition(" ")
    assert path and " " not in path and int(nanoseconds) > 0, line
)",
                                    chrome, folded});
  EXPECT_EQ(read.exit_code, 0) << read.err;
}

TEST_F(Tracing, SaysWhyNothingIsRecorded) {
  const Outcome foreign = kintsugi({"trace", "attach", "chunkserver-1", "--start", "method:Stat"});
  EXPECT_EQ(foreign.exit_code, 1);
  EXPECT_THAT(foreign.err, HasSubstr("does not serve \"Stat\"; it serves "));
  EXPECT_THAT(foreign.err, HasSubstr("ReadChunk"));
  const Outcome idle =
      kintsugi({"trace", "attach", "chunkserver-1", "--start", "method:VerifyChunks", "--for", "100ms"});
  EXPECT_EQ(idle.exit_code, 0) << idle.err;
  EXPECT_THAT(idle.out, HasSubstr("Nothing was recorded: method:VerifyChunks was not called meanwhile."));
}

}  // namespace
}  // namespace kintsugi::processes
