// A daemon serves several requests in turn on one thread: the records of its functions become flows, one for each request.
#include "tests/tracing/records_rig.h"
#include "tracing/cause/explanation.h"

namespace kintsugi::tracing {
namespace {

using rpc::Method;
using ::testing::Contains;
using ::testing::IsSupersetOf;
using ::testing::Not;

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

TEST(EventsOfTraces, AFrameThatAnotherProcessSentContinuesItsFlow) {
  TracedProcess client(1, "kintsugi-metaserver"), server(2);
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
  TracedProcess command(1, kCommand), server(2);
  constexpr uint64_t kBack = 0x71, kPost = 0x91;
  command.enter("get");
  command.call(std::string(kPosted), {0, kPost});
  command.thread = 1;
  command.named.trace.threads.resize(2);
  command.enter("boost::asio::detail::scheduler::do_run_one");
  command.enter(std::string(kPostedDone), {0, kPost});
  for (uint64_t call = 0; call < 3; ++call)
    command.frame(kFrameSent, kConnection, call, call, Method::kReadChunk, rpc::kFlagRequest);
  command.leave(std::string(kPostedDone));
  command.leave("boost::asio::detail::scheduler::do_run_one");
  server.now = command.now + 100;
  for (uint64_t call = 0; call < 3; ++call)
    server.serve([&] {
      server.request(call, call, Method::kReadChunk);
      server.call("work");
      server.frame(kFrameSent, kBack, call, call, Method::kReadChunk, rpc::kFlagEnd);
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
  TracedProcess server(1);
  server.serve([&] { server.request(0, 1, Method::kWriteChunk); });
  for (uint64_t number = 1; number < 4; ++number)
    server.serve([&] {
      server.frame(kFrameReceived, kConnection, number, 1, Method::kWriteChunk, rpc::kFlagStream);
      server.call("take");
    });
  const auto writes = functions_of(separated({server.named}), "WriteChunk");
  ASSERT_EQ(writes.size(), 1);
  EXPECT_EQ(writes[0].count("take"), 3);
}

TEST(EventsOfTraces, TheRequestThatWaitedLongerIsNamedWithWhatItWaitedFor) {
  TracedProcess server(1);
  for (uint64_t request = 0; request < 12; ++request) {
    const uint64_t frame = 0x2000 + 0x100 * request;
    server.turn([&] {
      server.enter("serve.resume", {kServe});
      server.request(request, request, Method::kReadChunk);
      server.leave("serve.resume");
      server.resume("read", frame, {"checks"});
      server.resume("disk", frame + 8);
    });
    server.now += request == 7 ? 90'000 : 50;
    server.turn([&] {
      server.resume("disk", frame + 8);
      server.resume("read", frame, {"answers"});
      server.resume("serve", kServe);
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

TEST(EventsOfTraces, ArgumentsWhoseEntryIsLostAreLeftOut) {
  TracedProcess server(1);
  server.call("work");
  server.named.trace.threads[0].records.insert(
      server.named.trace.threads[0].records.begin(),
      {.ticks = 77, .function = 1, .kind = Kind::kArgument, .extra = 1});
  EXPECT_EQ(separated({server.named}).trace.size(), 2);
}

}  // namespace
}  // namespace kintsugi::tracing
