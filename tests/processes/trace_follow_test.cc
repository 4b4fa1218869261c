// Requests are followed from one daemon into the next. Chunkservers alone have sleds in builds of tests; of the others their frames are
// recorded (KINTSUGI_SLEDS).
#include <csignal>
#include <filesystem>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/processes/repair_rig.h"

namespace kintsugi::processes {
namespace {

using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using ::testing::UnorderedElementsAre;

class TraceFollowing : public RepairRig {
 protected:
  void start_traced_rig(const std::string& repair_bandwidth) {
    ASSERT_NO_FATAL_FAILURE(start_rig({.servers = 7,
                                       .policy = "rs-3-2-256k",
                                       .chunk_size = "8MiB",
                                       .repair_delay = "600",
                                       .repair_bandwidth = repair_bandwidth,
                                       .file_bytes = size_t{24} << 20}));
    ASSERT_NO_FATAL_FAILURE(skip_without_sleds());
    if (IsSkipped()) return;
    const Json cluster = Json::parse(read_file(cluster_directory() + "/cluster.json"));
    metaserver_ = cluster.at("metaserver");
    size_t number = 0;
    for (const Json& server : cluster.at("chunkservers"))
      addresses_["chunkserver-" + std::to_string(++number)] = server.at("listen");
    // Its port is none that the cluster knows beforehand.
    const std::string log = read_file(cluster_directory() + "/log/repair-manager-1.log"),
                      serves = " serves at ";
    const size_t at = log.rfind(serves);
    ASSERT_NE(at, std::string::npos) << log;
    const size_t address = at + serves.size();
    addresses_["repair-manager"] = log.substr(address, log.find_first_of(" \n", address) - address);
  }

  /// Has the metaserver record, and followed what it is asked to repair.
  std::unique_ptr<BackgroundCommand> follow() const {
    const std::string out = "exec \"$@\" > " + path("followed") + " 2>&1";
    std::vector<std::string> line{"/bin/bash", "-c", out, "bash"};
    const auto ours = command({"trace", "attach", "metaserver", "--start", "method:RunRepair", "--follow",
                               "--for", "300s", "--out", trace()});
    line.insert(line.end(), ours.begin(), ours.end());
    auto attach = std::make_unique<BackgroundCommand>(line, environment());
    EXPECT_TRUE(eventually([&] { return records("metaserver"); }, kLimit));
    return attach;
  }
  std::string end(BackgroundCommand& attach) const {
    EXPECT_EQ(kintsugi({"trace", "detach", "metaserver"}).exit_code, 0);
    EXPECT_EQ(attach.exit_code(), 0);
    return read_file(path("followed"));
  }
  bool records(const std::string& where) const {
    return kintsugi({"trace", "status", where}).out.starts_with("recording");
  }
  std::string trace() const { return path("trace"); }
  std::string trace_of(const std::string& daemon) const { return trace() + "." + addresses_.at(daemon); }

  /// What a chunkserver has done for repairs, as it says itself.
  std::string repair_work(const std::string& daemon) const {
    std::string found, page = metrics_of(daemon);
    for (const char* kind : {"call=\"partial_sum\"", "call=\"repair\""})
      if (const size_t at = page.find(kind); at != std::string::npos)
        found += page.substr(at, page.find('\n', at) - at) + "\n";
    return found;
  }
  std::set<std::string> daemons_with_traces() const {
    std::set<std::string> found;
    for (const auto& [daemon, address] : addresses_)
      if (std::filesystem::exists(trace_of(daemon))) found.insert(daemon);
    return found;
  }
  /// The recordings export as OTLP's JSON has it: ids are hexadecimal, enums numbers, and 64-bit numbers decimal strings.
  void expect_spans(const std::vector<std::string>& files) const {
    std::vector<std::string> arguments{"trace", "export", "--format", "otlp", "--out", path("spans.json")};
    arguments.insert(arguments.end(), files.begin(), files.end());
    const Outcome exported = kintsugi(arguments);
    ASSERT_EQ(exported.exit_code, 0) << exported.err;
    const Outcome read = run_command({"/usr/bin/python3", "-c", R"(
import collections, json, re, sys
def only(fields, some, needed):
    assert set(needed) <= set(some) <= set(fields), some
all = json.load(open(sys.argv[1]))
only(["resourceSpans"], all, ["resourceSpans"])
spans, services, where = {}, set(), collections.defaultdict(set)
for of_process in all["resourceSpans"]:
    only(["resource", "scopeSpans", "schemaUrl"], of_process, ["resource", "scopeSpans"])
    named = {}
    for each in of_process["resource"]["attributes"]:
        only(["key", "value"], each, ["key", "value"])
        only(["stringValue"], each["value"], ["stringValue"])
        named[each["key"]] = each["value"]["stringValue"]
    services.add(named["service.name"])
    for scope in of_process["scopeSpans"]:
        only(["scope", "spans", "schemaUrl"], scope, ["scope", "spans"])
        assert scope["scope"]["name"]
        for span in scope["spans"]:
            needed = ["traceId", "spanId", "name", "kind", "startTimeUnixNano", "endTimeUnixNano"]
            only(needed + ["parentSpanId"], span, needed)
            assert re.fullmatch("[0-9a-f]{32}", span["traceId"]) and int(span["traceId"], 16), span
            assert re.fullmatch("[0-9a-f]{16}", span["spanId"]) and int(span["spanId"], 16), span
            assert isinstance(span["name"], str) and span["name"], span
            assert type(span["kind"]) is int and 1 <= span["kind"] <= 5, span
            for time in span["startTimeUnixNano"], span["endTimeUnixNano"]:
                assert isinstance(time, str) and re.fullmatch("[1-9][0-9]{18}", time), span
            assert int(span["startTimeUnixNano"]) <= int(span["endTimeUnixNano"]), span
            known = span["traceId"], span["spanId"]
            assert known not in spans, "two spans have one id"
            spans[known] = span
            where[span["traceId"]].add(named["service.instance.id"])
for (trace, _), span in spans.items():
    parent = span.get("parentSpanId")
    assert parent is None or (trace, parent) in spans, span
assert {"kintsugi", "kintsugi-metaserver", "kintsugi-chunkserver"} <= services, services
assert max(map(len, where.values())) == int(sys.argv[2]), where
)",
                                      path("spans.json"), std::to_string(files.size())});
    EXPECT_EQ(read.exit_code, 0) << read.err;
  }
  static std::vector<std::string> files_in(const std::string& directory) {
    std::vector<std::string> files;
    for (const auto& each : std::filesystem::directory_iterator(directory))
      files.push_back(each.path());
    return files;
  }
  /// How many processes the frames of one and the same flow came to.
  size_t processes_of_the_largest_flow(const std::vector<std::string>& files) const {
    std::vector<std::string> arguments{"trace", "export", "--out", path("flows.json")};
    arguments.insert(arguments.end(), files.begin(), files.end());
    const Outcome exported = kintsugi(arguments);
    EXPECT_EQ(exported.exit_code, 0) << exported.err;
    EXPECT_EQ(exported.err, "") << "nothing is missing";
    std::map<int, std::set<int>> processes;  // by flow
    size_t in_largest = 0;
    const Json chrome = Json::parse(read_file(path("flows.json")));
    for (const Json& event : chrome.at("traceEvents"))
      if (event.at("ph") == "f") processes[event.at("args").at("flow")].insert(int{event.at("pid")});
    for (const auto& [flow, reached] : processes)
      in_largest = std::max(in_largest, reached.size());
    return in_largest;
  }
  /// Runs beside the test; what it says on stderr, or on another descriptor, goes to a file.
  std::unique_ptr<BackgroundCommand> beside(const std::vector<std::string>& arguments, const std::string& out,
                                            int descriptor = 2) const {
    const std::string redirected = "exec \"$@\" " + std::to_string(descriptor) + "> " + out;
    std::vector<std::string> line{"/bin/bash", "-c", redirected, "bash"};
    const auto ours = command(arguments);
    line.insert(line.end(), ours.begin(), ours.end());
    return std::make_unique<BackgroundCommand>(line, environment());
  }
  void nobody_records() const {
    for (const auto& [daemon, address] : addresses_)
      EXPECT_THAT(kintsugi({"trace", "status", address}).out, Not(HasSubstr("recording"))) << daemon;
  }

  std::map<std::string, std::string> addresses_;
  std::string metaserver_;
};

TEST_F(TraceFollowing, OfARepairReachesEveryServerThatHelpsAndNoOther) {
  ASSERT_NO_FATAL_FAILURE(start_traced_rig("0"));
  if (IsSkipped()) return;
  std::map<std::string, std::string> before;
  for (const auto& [daemon, address] : addresses_)
    if (daemon != "repair-manager") before[daemon] = repair_work(daemon);
  ASSERT_THAT(before.at("chunkserver-1"), HasSubstr("partial_sum"));
  const auto attach = follow();
  const Outcome repair = kintsugi({"repair", "run", "--chunk", chunk(0), "--shape", "chain"});
  EXPECT_EQ(repair.exit_code, 0) << repair.err;
  const std::string said = end(*attach);
  std::set<std::string> helped{"repair-manager"};
  for (const auto& [daemon, work] : before)
    if (repair_work(daemon) != work) helped.insert(daemon);
  EXPECT_EQ(helped.size(), 5) << "a repair manager, a destination, and three helpers";
  EXPECT_EQ(daemons_with_traces(), helped) << said;
  nobody_records();
  // The traces are one: what one process sent is what another one received.
  std::vector<std::string> files{trace()};
  for (const std::string& daemon : helped)
    files.push_back(trace_of(daemon));
  std::vector<std::string> arguments{"trace", "export", "--out", path("trace.json")};
  arguments.insert(arguments.end(), files.begin(), files.end());
  const Outcome exported = kintsugi(arguments);
  ASSERT_EQ(exported.exit_code, 0) << exported.err;
  std::map<int64_t, int> from;
  std::map<int64_t, std::string> calls;  // both ends of an arrow name the call that the frame is of
  std::set<std::pair<int, int>> arrows;
  const Json chrome = Json::parse(read_file(path("trace.json")));
  for (const Json& event : chrome.at("traceEvents")) {
    if (event.at("ph") == "s") from[event.at("id")] = event.at("pid");
    if (event.at("ph") == "s") calls[event.at("id")] = event.at("args").at("call");
    if (event.at("ph") != "f") continue;
    arrows.insert({from.at(event.at("id")), event.at("pid")});
    EXPECT_EQ(event.at("args").at("call"), calls.at(event.at("id")));
    EXPECT_NE(event.at("args").at("call"), "0");
  }
  std::set<int> reached{0};
  for (size_t round = 0; round < files.size(); ++round)
    for (const auto& [sender, receiver] : arrows)
      if (reached.contains(sender)) reached.insert(receiver);
  EXPECT_EQ(reached.size(), files.size()) << "each process is reached by frames from the first one";
}

TEST_F(TraceFollowing, TellsOfAServerThatDiesAndOfOneThatSomebodyElseTraces) {
  ASSERT_NO_FATAL_FAILURE(start_traced_rig("1MiB"));
  if (IsSkipped()) return;
  const std::string other = daemon_of(server_of(1));
  BackgroundCommand foreign(command({"trace", "attach", other, "--circular", "--for", "300s"}),
                            environment());
  ASSERT_TRUE(eventually([&] { return records(other); }, kLimit));
  const auto attach = follow();
  BackgroundCommand repair(command({"repair", "run", "--chunk", chunk(0), "--shape", "star"}), environment());
  const Json running = running_tree();
  ASSERT_TRUE(running.is_object());
  std::string killed;
  for (const Json& helper : running.at("helpers"))
    if (daemon_of(helper) != other) killed = helper;
  ASSERT_NE(killed, "");
  kill_server(killed);
  const std::string said = end(*attach);
  EXPECT_THAT(said, HasSubstr("no trace of " + addresses_.at(daemon_of(killed)) + ": "));
  if (said.find("no trace of " + addresses_.at(other)) != std::string::npos)
    EXPECT_THAT(said, HasSubstr("this process is being traced, for "));
  EXPECT_TRUE(records(other)) << "it belongs to somebody else";
  EXPECT_EQ(kintsugi({"trace", "detach", other}).exit_code, 0);
  EXPECT_EQ(foreign.exit_code(), 0);
  nobody_records();
  repair.exit_code();
}

TEST_F(TraceFollowing, OfACommandIsOneFlowOverAllServersThatItAsks) {
  ASSERT_NO_FATAL_FAILURE(start_traced_rig("0"));
  if (IsSkipped()) return;
  const std::string traces = path("get");
  const Outcome got = kintsugi({"get", "--trace", traces, "/file", path("back")});
  ASSERT_EQ(got.exit_code, 0) << got.err;
  EXPECT_TRUE(read_file(path("back")) == read_file(file()));
  EXPECT_THAT(got.err, HasSubstr("this command: trace " + traces + "/trace\n"));
  nobody_records();
  std::set<std::string> asked{"metaserver"};
  for (size_t index = 0; index < 3; ++index)
    asked.insert(daemon_of(server_of(index)));
  const std::vector<std::string> files = files_in(traces);
  EXPECT_GE(files.size(), 1 + asked.size());
  for (const std::string& daemon : asked) {
    const std::string address = daemon == "metaserver" ? metaserver_ : addresses_.at(daemon);
    EXPECT_THAT(got.err, HasSubstr("followed to " + address + ": "));
    EXPECT_TRUE(std::filesystem::exists(traces + "/trace." + address)) << daemon;
  }
  EXPECT_EQ(processes_of_the_largest_flow(files), files.size()) << got.err;
  expect_spans(files);
}

TEST_F(TraceFollowing, OfSeveralCommandsAtATimeIsRecordedForEach) {
  ASSERT_NO_FATAL_FAILURE(start_traced_rig("0"));
  if (IsSkipped()) return;
  // One has the metaserver record all that it does, and a put of a pipe that nobody ends has it record, too.
  BackgroundCommand attached(
      command({"trace", "attach", "metaserver", "--for", "300s", "--out", path("attached")}), environment());
  EXPECT_TRUE(eventually([&] { return records("metaserver"); }, kLimit));
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  const int pipe = ::open(path("pipe").c_str(), O_RDWR | O_CLOEXEC);
  const std::string put =
      "exec " + command({}).front() + " put --trace " + path("put") + " - /endless < " + path("pipe");
  BackgroundCommand endless({"/bin/bash", "-c", put}, environment());
  const auto recording = [&] { return kintsugi({"trace", "status", "metaserver"}).out; };
  EXPECT_TRUE(eventually([&] { return recording().starts_with("recording, for 2 commands\n"); }, kLimit));
  const std::vector<std::string> gets{"get-1", "get-2"};
  std::vector<std::unique_ptr<BackgroundCommand>> commands;
  for (const std::string& get : gets)
    commands.push_back(
        beside({"get", "--trace", path(get), "/file", path(get + ".back")}, path(get + ".err")));
  commands.push_back(beside({"stat", "--trace", path("stat"), "/file"}, path("stat.err")));
  for (const auto& each : commands)
    EXPECT_EQ(each->exit_code(), 0);
  ASSERT_TRUE(endless.send(SIGINT));
  EXPECT_EQ(endless.exit_code(), 128 + SIGINT);
  ::close(pipe);
  EXPECT_THAT(recording(), StartsWith("recording\n")) << "for the first one alone, which goes on";
  EXPECT_EQ(kintsugi({"trace", "detach", "metaserver"}).exit_code, 0);
  EXPECT_EQ(attached.exit_code(), 0);
  EXPECT_TRUE(std::filesystem::exists(path("attached")));
  nobody_records();
  std::set<std::string> asked{metaserver_};
  for (size_t index = 0; index < 3; ++index)
    asked.insert(addresses_.at(daemon_of(server_of(index))));
  for (const std::string& get : gets) {
    const std::string err = read_file(path(get + ".err"));
    EXPECT_THAT(err, Not(HasSubstr("no trace of")));
    EXPECT_TRUE(read_file(path(get + ".back")) == read_file(file()));
    for (const std::string& address : asked)
      EXPECT_THAT(err, HasSubstr("followed to " + address + ": "));
    const std::vector<std::string> files = files_in(path(get));
    EXPECT_GE(files.size(), 1 + asked.size());
    EXPECT_EQ(processes_of_the_largest_flow(files), files.size()) << err;
  }
  EXPECT_THAT(files_in(path("stat")),
              UnorderedElementsAre(path("stat") + "/trace", path("stat") + "/trace." + metaserver_))
      << "it asked nobody else, whoever was recorded for others: " << read_file(path("stat.err"));
  // Gets of which nobody wants traces fill a small memory.
  const auto small = beside({"trace", "attach", daemon_of(server_of(0)), "--memory", "1m", "--for", "300s"},
                            path("small"), 1);
  EXPECT_TRUE(eventually(
      [&] {
        kintsugi({"get", "--replace", "/file", path("again")});
        return !small->running();
      },
      kLimit));
  EXPECT_THAT(read_file(path("small")),
              HasSubstr("ended; its memory was full, so what came later is missing\n"));
}

TEST_F(TraceFollowing, OfACommandEndsWhenThatIsInterruptedAndNeedsTheRightToAdminister) {
  ASSERT_NO_FATAL_FAILURE(start_traced_rig("0"));
  if (IsSkipped()) return;
  ASSERT_EQ(kintsugi({"token", "create", "reader", "--role", "read", "--out", path("reader")}).exit_code, 0);
  std::vector<std::string> line{"/usr/bin/env", "-u", "KINTSUGI_SECRET_FILE",
                                "KINTSUGI_TOKEN_FILE=" + path("reader")};
  const auto stat = command({"stat", "--trace", path("stat"), "/file"});
  line.insert(line.end(), stat.begin(), stat.end());
  const Outcome refused = run_command(line, environment());
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_EQ(refused.out, "") << "it was not done";
  EXPECT_THAT(refused.err, HasSubstr("its role is read, and this takes admin"));
  const Outcome full = kintsugi({"stat", "--trace", path(""), "/file"});
  EXPECT_EQ(full.exit_code, 1);
  EXPECT_THAT(full.err, HasSubstr("is not empty, and traces of this command alone belong there"));
  // A put of a pipe that nobody ends.
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  const int pipe = ::open(path("pipe").c_str(), O_RDWR | O_CLOEXEC);
  const std::string put =
      "exec " + command({}).front() + " put --trace " + path("put") + " - /endless < " + path("pipe");
  BackgroundCommand endless({"/bin/bash", "-c", put}, environment());
  EXPECT_TRUE(eventually([&] { return records("metaserver"); }, kLimit));
  ASSERT_TRUE(endless.send(SIGINT));
  EXPECT_EQ(endless.exit_code(), 128 + SIGINT);
  ::close(pipe);
  nobody_records();
}

TEST_F(TraceFollowing, IsOfRequests) {
  ASSERT_NO_FATAL_FAILURE(start_traced_rig("0"));
  if (IsSkipped()) return;
  const Outcome refused =
      kintsugi({"trace", "attach", "chunkserver-1", "--start", "ChunkService::write_chunk", "--follow"});
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.err, HasSubstr("is no request: what is followed is method:NAME, or all"));
  // The metaserver is asked much meanwhile, but nothing of the kind.
  const auto attach = follow();
  EXPECT_EQ(kintsugi({"stat", "/file"}).exit_code, 0);
  const std::string said = end(*attach);
  EXPECT_THAT(said, HasSubstr("No request was followed: none came of method:RunRepair."));
  EXPECT_TRUE(daemons_with_traces().empty());
}

}  // namespace
}  // namespace kintsugi::processes
