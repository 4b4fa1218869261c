// Coroutines wait, go on in other turns of the event loop and spawn others: all that they do is of the request that began them.
#include "tests/tracing/records_rig.h"
#include "tracing/anomaly/profile.h"

namespace kintsugi::tracing {
namespace {

using rpc::Method;
using ::testing::Contains;
using ::testing::IsSupersetOf;
using ::testing::Not;

/// The coroutines "read" and "write" have these frames.
constexpr uint64_t kRead = 0x2000, kWrite = 0x3000;

/// A request comes to read, and its coroutine begins.
void begin_read(TracedProcess& server) {
  server.serve([&] {
    server.request(0, 1, Method::kReadChunk);
    server.resume("read", kRead);
  });
}

/// In one turn a request comes to read and another one to write, and the coroutine of each begins.
void begin_read_and_write(TracedProcess& server) {
  server.serve([&] {
    server.request(0, 1, Method::kReadChunk);
    server.resume("read", kRead);
    server.request(1, 2, Method::kWriteChunk);
    server.resume("write", kWrite);
  });
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

/// Two requests to read come one after the other, each as `take` says. The frames of their coroutines are at one place. Returns
/// the functions of each flow.
template <class Take>
std::vector<std::multiset<std::string>> reads_with_one_frame(Take take) {
  TracedProcess server(1);
  for (uint64_t request = 0; request < 2; ++request)
    server.turn([&] {
      take(server, request);
      server.resume("read", kRead, {"work"});
      server.call("read.destroy", {kRead});
    });
  return functions_of(separated({server.named}), "ReadChunk");
}

TEST(EventsOfTraces, AFrameOfACoroutineIsUsedAgainByAnotherOne) {
  const auto reads = reads_with_one_frame([](TracedProcess& server, uint64_t request) {
    server.enter("serve.resume", {kServe});
    server.request(request, request, Method::kReadChunk);
    server.leave("serve.resume");
  });
  ASSERT_EQ(reads.size(), 2);
  for (const auto& functions : reads)
    EXPECT_EQ(functions.count("work"), 1);
}

TEST(EventsOfTraces, ACoroutineWithoutSledsMayPassFramesOn) {
  const auto reads = reads_with_one_frame([](TracedProcess& server, uint64_t request) {
    server.resume("reads a connection", kServe);
    server.request(request, request, Method::kReadChunk);
  });
  ASSERT_EQ(reads.size(), 2);
  for (const auto& functions : reads)
    EXPECT_EQ(functions.count("work"), 1);
}

/// A coroutine continues in a turn of the event loop whose request nobody knows, and suspends. What is called in its place
/// spawns another one, as asio starts an operation.
void suspend_and_spawn(TracedProcess& server, const std::string& coroutine, uint64_t frame,
                       const std::string& spawned) {
  server.turn([&] {
    server.resume(coroutine, frame);
    server.enter("initiate");
    server.resume(spawned, frame + 0x40, {spawned + " begins"});
    server.leave("initiate");
  });
}

TEST(EventsOfTraces, WhatACoroutineSpawnsWhileItIsSuspendedIsOfItsFlow) {
  TracedProcess server(1);
  begin_read_and_write(server);
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
  TracedProcess server(1);
  begin_read(server);
  server.enter("boost::asio::detail::scheduler::do_run_one");
  server.enter("pump");
  server.resume("read", kRead);
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
  TracedProcess server(1);
  server.named.trace.threads.resize(2);
  begin_read(server);
  server.enter("boost::asio::detail::scheduler::do_run_one");
  server.enter("pump");
  server.resume("read", kRead);
  server.enter("initiate");
  server.thread = 1;
  server.enter("boost::asio::detail::scheduler::do_run_one");
  server.resume("read", kRead, {"copies"});
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
  TracedProcess server(1);
  begin_read_and_write(server);
  server.turn([&] {
    server.enter("write.resume", {kWrite});
    server.resume("read", kRead);
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
  TracedProcess server(1);
  constexpr uint64_t kGroups = 0x4000, kPost = 0x91;
  server.serve([&] {
    server.request(0, 1, Method::kWriteChunk);
    server.enter("write.resume", {kWrite});
    server.call(std::string(kPosted), {0, kPost});
    server.leave("write.resume");
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

}  // namespace
}  // namespace kintsugi::tracing
