// From records of functions to flows: what a daemon does for several requests in turn, on one thread.
#include <map>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/rpc/frame.h"
#include "tracing/anomaly/profile.h"
#include "tracing/cause/explanation.h"
#include "tracing/events/separation.h"
#include "tracing/repository/recorded_arguments.h"

namespace kintsugi::tracing {
namespace {

using rpc::Method;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsSupersetOf;
using ::testing::Not;

/// A process whose records are written by hand. A tick is a nanosecond.
class Process {
 public:
  explicit Process(uint32_t pid, const std::string& binary = "kintsugi-chunkserver") {
    named.process = binary + " " + std::to_string(pid);
    named.binary = binary;
    named.trace.pid = pid;
    named.trace.end = End::kDetached;
    named.trace.latest = {.ticks = 1'000'000, .unix_ns = 1'000'000};
    named.trace.threads.resize(1);
  }

  void enter(const std::string& function, std::vector<uint64_t> arguments = {}) {
    add(Kind::kEntry, function);
    for (size_t i = 0; i < arguments.size(); ++i)
      named.trace.threads[thread].records.push_back({.ticks = arguments[i],
                                                     .function = number_of(function),
                                                     .kind = Kind::kArgument,
                                                     .extra = static_cast<uint16_t>(i + 1)});
  }
  void leave(const std::string& function) { add(Kind::kExit, function); }
  void leave(const std::string& function, uint64_t returned) {
    leave(function);
    named.trace.threads[thread].records.push_back({.ticks = returned,
                                                   .function = number_of(function),
                                                   .kind = Kind::kArgument,
                                                   .extra = static_cast<uint16_t>(kReturnedPlace)});
  }
  void call(const std::string& function, std::vector<uint64_t> arguments = {}) {
    enter(function, std::move(arguments));
    leave(function);
  }
  /// The coroutine at `frame` goes on and calls these.
  void resume(const std::string& coroutine, uint64_t frame, const std::vector<std::string>& calls = {}) {
    enter(coroutine + ".resume", {frame});
    for (const std::string& each : calls)
      call(each);
    leave(coroutine + ".resume");
  }
  void frame(std::string_view mark, uint64_t channel, uint64_t number, uint64_t call_number, Method method,
             uint16_t flags) {
    call(std::string(mark), {channel, number, 100, call_number, static_cast<uint64_t>(method) << 16 | flags});
  }
  /// The event loop has somebody run `work`.
  template <class Work>
  void turn(Work work) {
    enter("boost::asio::detail::scheduler::do_run_one");
    enter("pump");
    work();
    leave("pump");
    leave("boost::asio::detail::scheduler::do_run_one");
  }

  NamedTrace named;
  uint64_t now = 0;
  size_t thread = 0;

 private:
  uint32_t number_of(const std::string& function) {
    const auto [found, added] = numbers_.try_emplace(function, static_cast<uint32_t>(numbers_.size() + 1));
    if (added) named.functions.push_back(function);
    named.trace.functions = static_cast<uint32_t>(numbers_.size());
    return found->second;
  }
  void add(Kind kind, const std::string& function) {
    now += 10;
    named.trace.threads[thread].records.push_back(
        {.ticks = now, .function = number_of(function), .kind = kind});
  }
  std::map<std::string, uint32_t> numbers_;
};

Separated separated(std::vector<NamedTrace> traces, SeparationSettings settings = {}) {
  Separation separation(std::move(settings));
  for (const NamedTrace& trace : traces)
    separation.add(trace);
  auto result = separation.finish();
  EXPECT_TRUE(result) << result.error();
  return std::move(*result);
}

/// Functions that were entered in the flow that begins with this method.
std::vector<std::multiset<std::string>> functions_of(const Separated& all, std::string_view method) {
  std::vector<std::multiset<std::string>> found;
  for (flow::FlowId id = 0; id < all.flows.flows.size(); ++id) {
    if (all.trace.name_of(all.trace.event(all.flows.flows[id].root).function) != method) continue;
    auto& functions = found.emplace_back();
    for (flow::EventId event = 0; event < all.trace.size(); ++event)
      if (all.flows.of[event] == id && all.trace.event(event).kind == flow::Kind::kEntry)
        functions.emplace(all.trace.name_of(all.trace.event(event).function));
  }
  return found;
}

constexpr std::string_view kPosted = "boost::asio::detail::scheduler::post_immediate_completion",
                           kPostedDone = "boost::asio::detail::executor_op::do_complete";

/// Two requests come on one connection in one turn of the event loop. The coroutine of each is posted, and waits for a disk.
Process two_requests() {
  Process server(1);
  constexpr uint64_t kServe = 0x1000, kFirst = 0x2000, kSecond = 0x3000, kChannel = 0x70;
  constexpr uint64_t kPostedFirst = 0x91, kPostedSecond = 0x92;
  server.turn([&] {
    server.enter("serve.resume", {kServe});
    server.frame(kFrameReceived, kChannel, 0, 1, Method::kReadChunk, rpc::kFlagRequest);
    server.call(std::string(kPosted), {0, kPostedFirst});
    server.frame(kFrameReceived, kChannel, 1, 2, Method::kWriteChunk, rpc::kFlagRequest);
    server.call(std::string(kPosted), {0, kPostedSecond});
    server.leave("serve.resume");
  });
  const auto begin = [&](uint64_t posted, uint64_t frame, const std::string& coroutine) {
    server.enter("boost::asio::detail::scheduler::do_run_one");
    server.enter(std::string(kPostedDone), {0, posted});
    server.resume(coroutine, frame, {coroutine + " begins"});
    server.resume("disk", frame + 8);
    server.leave(std::string(kPostedDone));
    server.leave("boost::asio::detail::scheduler::do_run_one");
  };
  begin(kPostedFirst, kFirst, "read");
  begin(kPostedSecond, kSecond, "write");
  server.now += 10'000;
  const auto end = [&](uint64_t frame, const std::string& coroutine) {
    server.turn([&] {
      server.resume("disk", frame + 8, {"disk ends"});
      server.resume(coroutine, frame, {coroutine + " ends"});
      server.call(coroutine + ".destroy", {frame});
    });
  };
  end(kSecond, "write");
  end(kFirst, "read");
  server.turn([&] { server.resume("serve", kServe, {"waits for more"}); });
  return server;
}

TEST(EventsOfTraces, RequestsOfOneConnectionAreSeparated) {
  const Separated all = separated({two_requests().named});
  const auto reads = functions_of(all, "ReadChunk"), writes = functions_of(all, "WriteChunk");
  ASSERT_EQ(reads.size(), 1);
  ASSERT_EQ(writes.size(), 1);
  EXPECT_THAT(reads[0], IsSupersetOf({"read", "read begins", "disk", "disk ends", "read ends"}));
  EXPECT_THAT(writes[0], IsSupersetOf({"write", "write begins", "disk", "disk ends", "write ends"}));
  for (const char* const foreign : {"write", "write ends", "waits for more"})
    EXPECT_THAT(reads[0], Not(Contains(foreign)));
  for (const char* const foreign : {"read", "read ends", "waits for more"})
    EXPECT_THAT(writes[0], Not(Contains(foreign)));
}

TEST(EventsOfTraces, ACoroutineThatWaitsIsChargedWithTheTimeWhereItWaits) {
  const Separated all = separated({two_requests().named});
  anomaly::CallPaths paths(anomaly::Detail::kPaths);
  const auto totals = anomaly::totals_of(all.trace, anomaly::groups_by_flow(all.flows), paths);
  std::map<std::string, int64_t> of_read;
  for (flow::FlowId id = 0; id < all.flows.flows.size(); ++id)
    if (all.trace.name_of(all.trace.event(all.flows.flows[id].root).function) == "ReadChunk")
      for (const anomaly::PathTotal& total : totals[id])
        of_read[paths.text(total.path)] += total.self_ns;
  const int64_t waited = of_read["kintsugi-chunkserver: read -> disk -> (waits)"];
  EXPECT_GT(waited, 10'000);
  EXPECT_LT(waited, 10'500);
  int64_t sum = 0;
  for (const auto& [path, ns] : of_read)
    sum += ns;
  EXPECT_LT(sum - waited, 500);
}

TEST(EventsOfTraces, AFrameThatAnotherProcessSentContinuesItsFlow) {
  Process client(1, "kintsugi-metaserver"), server(2);
  constexpr uint64_t kThere = 0x70, kBack = 0x71, kAsks = 0x1000, kServes = 0x2000, kReads = 0x3000;
  client.turn([&] {
    client.enter("asks.resume", {kAsks});
    client.frame(kFrameReceived, 0x80, 0, 9, Method::kStat, rpc::kFlagRequest);
    client.frame(kFrameSent, kThere, 0, 5, Method::kPing, rpc::kFlagRequest);
    client.leave("asks.resume");
  });
  server.now = client.now + 100;
  server.turn([&] {
    server.enter("serves.resume", {kServes});
    server.frame(kFrameReceived, kThere, 0, 5, Method::kPing, rpc::kFlagRequest);
    server.call("work");
    server.frame(kFrameSent, kBack, 0, 5, Method::kPing, rpc::kFlagEnd);
    server.leave("serves.resume");
  });
  client.now = server.now + 100;
  client.turn([&] {
    client.enter("reads.resume", {kReads});
    client.frame(kFrameReceived, kBack, 0, 5, Method::kPing, rpc::kFlagEnd);
    client.call("goes on");
    client.leave("reads.resume");
  });
  const Separated all = separated({client.named, server.named});
  const auto stats = functions_of(all, "Stat");
  ASSERT_EQ(stats.size(), 1);
  EXPECT_THAT(stats[0], IsSupersetOf({"work", "goes on"}));
}

TEST(EventsOfTraces, ACommandIsOneFlowAndItsCallsCanBeComparedWithOneAnother) {
  Process command(1, kCommand), server(2);
  constexpr uint64_t kThere = 0x70, kBack = 0x71, kPost = 0x91;
  command.enter("get");
  command.call(std::string(kPosted), {0, kPost});
  command.thread = 1;
  command.named.trace.threads.resize(2);
  command.enter("boost::asio::detail::scheduler::do_run_one");
  command.enter(std::string(kPostedDone), {0, kPost});
  for (uint64_t call = 0; call < 3; ++call)
    command.frame(kFrameSent, kThere, call, call, Method::kReadChunk, rpc::kFlagRequest);
  command.leave(std::string(kPostedDone));
  command.leave("boost::asio::detail::scheduler::do_run_one");
  server.now = command.now + 100;
  for (uint64_t call = 0; call < 3; ++call)
    server.turn([&] {
      server.enter("serve.resume", {0x1000});
      server.frame(kFrameReceived, kThere, call, call, Method::kReadChunk, rpc::kFlagRequest);
      server.call("work");
      server.frame(kFrameSent, kBack, call, call, Method::kReadChunk, rpc::kFlagEnd);
      server.leave("serve.resume");
    });
  command.now = server.now + 100;
  for (uint64_t call = 0; call < 3; ++call)
    command.turn([&] {
      command.enter("reads.resume", {0x2000});
      command.frame(kFrameReceived, kBack, call, call, Method::kReadChunk, rpc::kFlagEnd);
      command.call("take");
      command.leave("reads.resume");
    });
  Separated all = separated({command.named, server.named});
  const auto whole = functions_of(all, "get");
  ASSERT_EQ(whole.size(), 1);
  EXPECT_EQ(whole[0].count("work"), 3);
  EXPECT_EQ(whole[0].count("take"), 3);
  all.flows = flows_by_call(all.trace, all.settings);
  const auto reads = functions_of(all, "ReadChunk");
  ASSERT_EQ(reads.size(), 3);
  for (const auto& functions : reads) {
    EXPECT_EQ(functions.count("work"), 1);
    EXPECT_EQ(functions.count("take"), 0) << "the command goes on by itself";
  }
}

TEST(EventsOfTraces, FramesOfACallWhoseCallerIsNotTracedAreOneFlow) {
  Process server(1);
  server.turn([&] {
    server.enter("serve.resume", {0x1000});
    server.frame(kFrameReceived, 0x70, 0, 1, Method::kWriteChunk, rpc::kFlagRequest);
    server.leave("serve.resume");
  });
  for (uint64_t number = 1; number < 4; ++number)
    server.turn([&] {
      server.enter("serve.resume", {0x1000});
      server.frame(kFrameReceived, 0x70, number, 1, Method::kWriteChunk, rpc::kFlagStream);
      server.call("take");
      server.leave("serve.resume");
    });
  const auto writes = functions_of(separated({server.named}), "WriteChunk");
  ASSERT_EQ(writes.size(), 1);
  EXPECT_EQ(writes[0].count("take"), 3);
}

TEST(EventsOfTraces, AFrameOfACoroutineIsUsedAgainByAnotherOne) {
  Process server(1);
  for (uint64_t request = 0; request < 2; ++request)
    server.turn([&] {
      server.enter("serve.resume", {0x1000});
      server.frame(kFrameReceived, 0x70, request, request, Method::kReadChunk, rpc::kFlagRequest);
      server.leave("serve.resume");
      server.resume("read", 0x2000, {"work"});
      server.call("read.destroy", {0x2000});
    });
  const auto reads = functions_of(separated({server.named}), "ReadChunk");
  ASSERT_EQ(reads.size(), 2);
  for (const auto& functions : reads)
    EXPECT_EQ(functions.count("work"), 1);
}

TEST(EventsOfTraces, TheRequestThatWaitedLongerIsNamedWithWhatItWaitedFor) {
  Process server(1);
  for (uint64_t request = 0; request < 12; ++request) {
    const uint64_t frame = 0x2000 + 0x100 * request;
    server.turn([&] {
      server.enter("serve.resume", {0x1000});
      server.frame(kFrameReceived, 0x70, request, request, Method::kReadChunk, rpc::kFlagRequest);
      server.leave("serve.resume");
      server.resume("read", frame, {"checks"});
      server.resume("disk", frame + 8);
    });
    server.now += request == 7 ? 90'000 : 50;
    server.turn([&] {
      server.resume("disk", frame + 8);
      server.resume("read", frame, {"answers"});
      server.resume("serve", 0x1000);
      server.call("read.destroy", {frame});
    });
  }
  const Separated all = separated({server.named});
  for (const cause::FlowsOfOneKind& kind : cause::kinds_of_flows(all.trace, all.flows)) {
    if (kind.start != "ReadChunk") continue;
    ASSERT_EQ(kind.flows.size(), 12);
    anomaly::CallPaths paths;
    const auto found = cause::explain_flows(all.trace, all.flows, paths, {.compared = kind.flows});
    ASSERT_TRUE(found);
    EXPECT_EQ(found->finding, cause::Finding::kOutlier);
    EXPECT_EQ(found->culprit, kind.flows[7]);
    ASSERT_FALSE(found->differences.empty());
    EXPECT_EQ(paths.text(found->differences[0].path),
              "kintsugi-chunkserver: serve -> read -> disk -> (waits)");
  }
}

TEST(EventsOfTraces, ACoroutineWithoutSledsMayPassFramesOn) {
  Process server(1);
  for (uint64_t request = 0; request < 2; ++request)
    server.turn([&] {
      server.resume("reads a connection", 0x1000);
      server.frame(kFrameReceived, 0x70, request, request, Method::kReadChunk, rpc::kFlagRequest);
      server.resume("read", 0x2000, {"work"});
      server.call("read.destroy", {0x2000});
    });
  const auto reads = functions_of(separated({server.named}), "ReadChunk");
  ASSERT_EQ(reads.size(), 2);
  for (const auto& functions : reads)
    EXPECT_EQ(functions.count("work"), 1);
}

TEST(EventsOfTraces, ArgumentsWhoseEntryIsLostAreLeftOut) {
  Process server(1);
  server.call("work");
  server.named.trace.threads[0].records.insert(
      server.named.trace.threads[0].records.begin(),
      {.ticks = 77, .function = 1, .kind = Kind::kArgument, .extra = 1});
  EXPECT_EQ(separated({server.named}).trace.size(), 2);
}

/// A coroutine continues in a turn of the event loop that nobody knows the request of, suspends, and what is called in its place
/// spawns another one, as asio starts an operation.
void suspend_and_spawn(Process& server, const std::string& coroutine, uint64_t frame,
                       const std::string& spawned) {
  server.turn([&] {
    server.resume(coroutine, frame);
    server.enter("initiate");
    server.resume(spawned, frame + 0x40, {spawned + " begins"});
    server.leave("initiate");
  });
}

TEST(EventsOfTraces, WhatACoroutineSpawnsWhileItIsSuspendedIsOfItsFlow) {
  Process server(1);
  constexpr uint64_t kRead = 0x2000, kWrite = 0x3000;
  server.turn([&] {
    server.enter("serve.resume", {0x1000});
    server.frame(kFrameReceived, 0x70, 0, 1, Method::kReadChunk, rpc::kFlagRequest);
    server.resume("read", kRead);
    server.frame(kFrameReceived, 0x70, 1, 2, Method::kWriteChunk, rpc::kFlagRequest);
    server.resume("write", kWrite);
    server.leave("serve.resume");
  });
  suspend_and_spawn(server, "write", kWrite, "writes the disk");
  suspend_and_spawn(server, "read", kRead, "reads the disk");
  server.now += 10'000;
  server.turn([&] { server.resume("reads the disk", kRead + 0x40, {"finds a wrong byte"}); });
  server.turn([&] { server.resume("writes the disk", kWrite + 0x40, {"keeps to a limit"}); });
  server.turn([&] {
    server.resume("read", kRead, {"answers"});
    server.call("read.destroy", {kRead});
  });
  const Separated all = separated({server.named});
  const auto reads = functions_of(all, "ReadChunk"), writes = functions_of(all, "WriteChunk");
  ASSERT_EQ(reads.size(), 1);
  ASSERT_EQ(writes.size(), 1);
  EXPECT_THAT(reads[0],
              IsSupersetOf({"reads the disk", "reads the disk begins", "finds a wrong byte", "answers"}));
  EXPECT_THAT(writes[0], IsSupersetOf({"writes the disk", "writes the disk begins", "keeps to a limit"}));
  EXPECT_THAT(reads[0], Not(Contains("keeps to a limit")));
  EXPECT_THAT(writes[0], Not(Contains("finds a wrong byte")));
}

TEST(EventsOfTraces, WhatAThreadSpawnsAfterASuspendedCoroutineIsNotOfItsFlow) {
  Process server(1);
  server.turn([&] {
    server.enter("serve.resume", {0x1000});
    server.frame(kFrameReceived, 0x70, 0, 1, Method::kReadChunk, rpc::kFlagRequest);
    server.resume("read", 0x2000);
    server.leave("serve.resume");
  });
  server.enter("boost::asio::detail::scheduler::do_run_one");
  server.enter("pump");
  server.resume("read", 0x2000);
  server.leave("pump");
  server.enter("timer");
  server.resume("sends a heartbeat", 0x3000);
  server.leave("timer");
  server.leave("boost::asio::detail::scheduler::do_run_one");
  const auto reads = functions_of(separated({server.named}), "ReadChunk");
  ASSERT_EQ(reads.size(), 1);
  EXPECT_THAT(reads[0], Not(Contains("sends a heartbeat")));
}

TEST(EventsOfTraces, ACoroutineThatAnotherThreadContinuedMeanwhileKeepsItsOrder) {
  Process server(1);
  server.named.trace.threads.resize(2);
  server.turn([&] {
    server.enter("serve.resume", {0x1000});
    server.frame(kFrameReceived, 0x70, 0, 1, Method::kReadChunk, rpc::kFlagRequest);
    server.resume("read", 0x2000);
    server.leave("serve.resume");
  });
  server.enter("boost::asio::detail::scheduler::do_run_one");
  server.enter("pump");
  server.resume("read", 0x2000);
  server.enter("initiate");
  server.thread = 1;
  server.enter("boost::asio::detail::scheduler::do_run_one");
  server.resume("read", 0x2000, {"copies"});
  server.thread = 0;
  server.resume("reads the disk", 0x4000);
  server.thread = 1;
  server.leave("boost::asio::detail::scheduler::do_run_one");
  server.thread = 0;
  server.leave("initiate");
  server.leave("pump");
  server.leave("boost::asio::detail::scheduler::do_run_one");
  const Separated all = separated({server.named});
  std::map<std::pair<uint32_t, uint32_t>, int64_t> latest;
  for (flow::EventId id = 0; id < all.trace.size(); ++id) {
    const flow::Event& event = all.trace.event(id);
    int64_t& before = latest[{event.process, event.thread}];
    EXPECT_LE(before, event.time_ns) << all.trace.name_of(event.function);
    before = event.time_ns;
  }
}

TEST(EventsOfTraces, ACoroutineThatContinuesAnotherOneSpawnsForItself) {
  Process server(1);
  server.turn([&] {
    server.enter("serve.resume", {0x1000});
    server.frame(kFrameReceived, 0x70, 0, 1, Method::kReadChunk, rpc::kFlagRequest);
    server.resume("read", 0x2000);
    server.frame(kFrameReceived, 0x70, 1, 2, Method::kWriteChunk, rpc::kFlagRequest);
    server.resume("write", 0x3000);
    server.leave("serve.resume");
  });
  server.turn([&] {
    server.enter("write.resume", {0x3000});
    server.resume("read", 0x2000);
    server.enter("spawn");
    server.resume("writes the disk", 0x4000);
    server.leave("spawn");
    server.leave("write.resume");
  });
  const Separated all = separated({server.named});
  EXPECT_THAT(functions_of(all, "WriteChunk").at(0), Contains("writes the disk"));
  EXPECT_THAT(functions_of(all, "ReadChunk").at(0), Not(Contains("writes the disk")));
}

TEST(EventsOfTraces, ACoroutineThatHadBegunBeforeIsNotOfTheRequestThatWakesIt) {
  Process server(1);
  constexpr uint64_t kWrite = 0x2000, kGroups = 0x3000, kPost = 0x91;
  server.turn([&] {
    server.enter("serve.resume", {0x1000});
    server.frame(kFrameReceived, 0x70, 0, 1, Method::kWriteChunk, rpc::kFlagRequest);
    server.enter("write.resume", {kWrite});
    server.call(std::string(kPosted), {0, kPost});
    server.leave("write.resume");
    server.leave("serve.resume");
  });
  server.enter("boost::asio::detail::scheduler::do_run_one");
  server.enter(std::string(kPostedDone), {0, kPost});
  server.enter("runtime::Resumption::Impl::resume");
  server.enter("pump");
  server.resume("commits groups", kGroups, {"takes a group"});
  server.leave("pump");
  server.leave("runtime::Resumption::Impl::resume");
  server.leave(std::string(kPostedDone));
  server.leave("boost::asio::detail::scheduler::do_run_one");
  server.now += 10'000;
  server.turn([&] { server.resume("commits groups", kGroups, {"waits for more"}); });
  const Separated all = separated({server.named});
  const auto writes = functions_of(all, "WriteChunk"), groups = functions_of(all, "commits groups");
  ASSERT_EQ(writes.size(), 1);
  for (const char* const foreign : {"commits groups", "takes a group", "waits for more"})
    EXPECT_THAT(writes[0], Not(Contains(foreign)));
  ASSERT_EQ(groups.size(), 1);
  EXPECT_THAT(groups[0], IsSupersetOf({"takes a group", "waits for more"}));
}

/// Two requests put work into a queue of their own making, and a worker takes it in the other order.
Process with_a_queue() {
  Process server(1);
  server.turn([&] {
    server.enter("serve.resume", {0x1000});
    server.frame(kFrameReceived, 0x70, 0, 1, Method::kReadChunk, rpc::kFlagRequest);
    server.call("Queue::put", {7, 0x51});
    server.frame(kFrameReceived, 0x70, 1, 2, Method::kWriteChunk, rpc::kFlagRequest);
    server.call("Queue::put", {7, 0x52});
    server.leave("serve.resume");
  });
  server.thread = 1;
  server.named.trace.threads.resize(2);
  for (const uint64_t taken : {0x52, 0x51}) {
    server.enter("Queue::take");
    server.leave("Queue::take", taken);
    server.call(taken == 0x51 ? "work of the read" : "work of the write");
  }
  return server;
}

SeparationSettings settings_of(std::string_view text) {
  auto directives = flow::parse_directives(text);
  EXPECT_TRUE(directives) << directives.error();
  return {.directives = std::move(*directives)};
}

constexpr std::string_view kQueue =
    "begin Queue::put:entry arg2 as job\n"
    "end Queue::take:exit ret as job\n";

TEST(EventsOfTraces, DirectivesOfAFileSayWhoseWorkAQueueHandsOver) {
  const Separated all = separated({with_a_queue().named}, settings_of(kQueue));
  const auto reads = functions_of(all, "ReadChunk"), writes = functions_of(all, "WriteChunk");
  ASSERT_EQ(reads.size(), 1);
  ASSERT_EQ(writes.size(), 1);
  EXPECT_THAT(reads[0], Contains("work of the read"));
  EXPECT_THAT(writes[0], Contains("work of the write"));
  EXPECT_THAT(reads[0], Not(Contains("work of the write")));
  EXPECT_TRUE(all.remarks.empty()) << all.remarks[0];
  const Separated without = separated({with_a_queue().named});
  EXPECT_THAT(functions_of(without, "ReadChunk").at(0), Not(Contains("work of the read")));
}

TEST(EventsOfTraces, ByTheRulesAloneNothingIsHandedOver) {
  const Separated by_rules = separated({two_requests().named}, {.rules_only = true});
  const auto reads = functions_of(by_rules, "ReadChunk");
  ASSERT_EQ(reads.size(), 1);
  EXPECT_THAT(reads[0], Not(Contains("read begins")));
  SeparationSettings with_queue = settings_of(kQueue);
  with_queue.rules_only = true;
  EXPECT_THAT(functions_of(separated({with_a_queue().named}, std::move(with_queue)), "ReadChunk").at(0),
              Not(Contains("work of the read")));
}

TEST(EventsOfTraces, DirectivesThatCannotBeFollowedAreToldWithTheirLines) {
  const Separated all = separated({with_a_queue().named}, settings_of("# of nobody\n"
                                                                      "begin Queue::putt:entry arg2 as job\n"
                                                                      "end take:exit ret as job\n"
                                                                      "begin Queue::put:entry arg4 as other\n"
                                                                      "idle entirely::other\n"));
  EXPECT_THAT(
      all.remarks,
      ElementsAre(
          "line 2: no recorded program has a function Queue::putt with room for tracing (did you mean "
          "Queue::put?)",
          "line 3: no recorded program has a function take with room for tracing (did you mean Queue::take?)",
          "line 4: the arg4 of Queue::put was not recorded: kintsugi trace attach --directives has it "
          "recorded",
          "line 5: no recorded program has a function entirely::other with room for tracing"));
}

TEST(EventsOfTraces, WhatTheShippedDirectivesNeedIsAlwaysRecorded) {
  const flow::Directives shipped = shipped_directives();
  EXPECT_GE(shipped.directives.size(), 3);
  EXPECT_GE(shipped.idle.size(), 2);
  for (const flow::Directive& each : shipped.directives) {
    // "a::b" is _ZN1a1bEv.
    std::string mangled = "_ZN";
    std::string_view rest = each.function;
    for (size_t end = 0; end != std::string_view::npos; rest.remove_prefix(std::min(rest.size(), end + 2))) {
      end = rest.find("::");
      const std::string part(rest.substr(0, end));
      mangled += std::to_string(part.size()) + part;
      if (end == std::string_view::npos) break;
    }
    EXPECT_NE(recorded_arguments(mangled + "Ev") & 1 << (each.argument - 1), 0) << each.function;
  }
}

}  // namespace
}  // namespace kintsugi::tracing
