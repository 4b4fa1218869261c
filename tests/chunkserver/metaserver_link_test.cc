// Registration, heartbeats, block reports and deletions.
#include "common/proto/formats.h"
#include "tests/chunkserver/cluster_rig.h"
#include "tests/expect_ok.h"

namespace kintsugi::chunkserver {
namespace {

TEST(MetaserverLink, RegistersReportsBlocksAndSendsAHeartbeatEachSecond) {
  ClusterRig rig(1);
  KINTSUGI_ASSERT_OK(rig.put(0, chunk_id(7, 2), chunk_bytes(2 * kMiB, 7)));
  rig.simulation.run_for(5500ms);
  ASSERT_EQ(rig.meta.registrations.size(), 1u);
  EXPECT_EQ(rig.meta.registrations[0].server_id(), rig.id(0).value);
  EXPECT_EQ(rig.meta.registrations[0].address(), "server0:7000");
  EXPECT_EQ(rig.meta.registrations[0].rack(), "rack0");
  EXPECT_TRUE(rig.servers[0].server->registered());
  EXPECT_EQ(rig.meta.reports.size(), 1u);
  EXPECT_TRUE(rig.meta.reports[0].last());
  EXPECT_GE(rig.meta.heartbeats.size(), 5u);
  EXPECT_LE(rig.meta.heartbeats.size(), 7u);
  const auto& last = rig.meta.heartbeats.back();
  EXPECT_EQ(last.chunks(), 1u);
  EXPECT_EQ(last.stored_bytes(), 2 * kMiB);
  EXPECT_EQ(last.disks(), 1u);
  EXPECT_GT(last.free_bytes(), 0u);
  uint64_t load = 0;
  for (const auto& heartbeat : rig.meta.heartbeats)
    load = std::max(load, heartbeat.user_bytes_per_second());
  EXPECT_GT(load, kMiB);
  EXPECT_EQ(last.user_bytes_per_second(), 0u);
}

TEST(MetaserverLink, TellsItsNameAndKeepsTheNumberThatItIsGiven) {
  ClusterRig rig(1);
  rig.simulation.run_for(2s);
  EXPECT_EQ(rig.meta.registrations.back().name(), "") << "none is configured";
  EXPECT_EQ(rig.meta.registrations.back().number(), 0u) << "any will do";
  rig.stop_server(0);
  rig.server_name = "blue-17";
  rig.meta.number = 3;
  rig.start_server(0);
  rig.simulation.run_for(2s);
  EXPECT_EQ(rig.meta.registrations.back().name(), "blue-17");
  EXPECT_EQ(rig.meta.registrations.back().number(), 17u) << "it would like the one in its name";
  rig.stop_server(0);
  rig.meta.number = 0;
  for (int i = 0; i < 2; ++i) {
    rig.start_server(0);
    rig.simulation.run_for(2s);
    EXPECT_EQ(rig.meta.registrations.back().number(), 3u) << "a metaserver that tells none changes nothing";
    rig.stop_server(0);
  }
  rig.start_server(0);
}

/// Writes half of a chunk, rests, and writes the other half.
asio::awaitable<void> write_slowly(ClusterRig& rig, std::vector<std::byte> bytes, Duration rest,
                                   Status& done) {
  proto::WriteChunkRequest request;
  request.set_stripe_id(7);
  request.set_policy(kTestPolicy);
  request.set_capability(rig.capability(chunk_id(7)));
  request.set_max_bytes(bytes.size());
  auto stream =
      co_await rig.client.open_stream(Context{}, rig.endpoint(0), rpc::Method::kWriteChunk, request);
  KINTSUGI_ASSERT(stream.has_value());
  for (size_t at = 0; at < bytes.size(); at += kTestFrameBytes) {
    const std::span part = std::span(bytes).subspan(at, std::min(kTestFrameBytes, bytes.size() - at));
    proto::WriteChunkData data;
    data.set_offset(at);
    for (uint32_t crc : crc32c_blocks(part))
      data.add_block_crcs(crc);
    const asio::const_buffer payload(part.data(), part.size());
    done = co_await (*stream)->send(data, std::span(&payload, 1));
    if (!done.ok()) co_return;
    runtime::TaskGroup tasks(rig.client_runtime);
    (void)co_await tasks.sleep_for(rest);
    co_await tasks.stop();
  }
  proto::WriteChunkSeal seal;
  seal.set_length(bytes.size());
  seal.set_crc(crc32c(bytes));
  done = co_await (*stream)->send_end(seal);
  proto::WriteChunkDone answer;
  if (done.ok()) {
    const auto sealed = co_await (*stream)->receive(answer);
    done = sealed ? Status{} : sealed.error();
  }
}

TEST(MetaserverLink, AServerThatIsStoppedSaysSoAndEndsTheWritesThatHaveBegun) {
  ClusterRig rig(1);
  rig.simulation.run_for(2s);
  const std::vector<std::byte> bytes = chunk_bytes(2 * kTestFrameBytes, 7);
  Status written{Code::kInternal, "not done"};
  asio::co_spawn(rig.simulation.executor(), write_slowly(rig, bytes, 1s, written), asio::detached);
  rig.simulation.run_for(100ms);
  rig.meta.heartbeats.clear();
  const TimePoint begun = rig.simulation.now();
  rig.simulation.run(rig.servers[0].server->leave());
  KINTSUGI_EXPECT_OK(written);
  EXPECT_LT(rig.simulation.now() - begun, ChunkServer::kFinishLimit);
  ASSERT_GE(rig.meta.heartbeats.size(), 2u) << "again and again, or it would count as dead";
  for (const auto& heartbeat : rig.meta.heartbeats)
    EXPECT_TRUE(heartbeat.leaving());
  EXPECT_EQ(*rig.get(0, chunk_id(7)), bytes);
}

TEST(MetaserverLink, AServerThatIsStoppedDoesNotWaitForAWriteThatDoesNotEnd) {
  ClusterRig rig(1);
  rig.simulation.run_for(2s);
  Status written;
  asio::co_spawn(rig.simulation.executor(),
                 write_slowly(rig, chunk_bytes(2 * kTestFrameBytes, 7), 1min, written), asio::detached);
  rig.simulation.run_for(100ms);
  const TimePoint begun = rig.simulation.now();
  rig.simulation.run(rig.servers[0].server->leave());
  EXPECT_LE(rig.simulation.now() - begun, ChunkServer::kFinishLimit + 1s);
  rig.stop_server(0);
  rig.simulation.run_for(2min);
  EXPECT_FALSE(written.ok());
}

TEST(MetaserverLink, KeepsTheFormatOfAClusterThatIsFinalizedMeanwhile) {
  ClusterRig rig(1);
  rig.simulation.run_for(2s);
  EXPECT_EQ(rig.meta.registrations.back().newest_format(), proto::kNewestFormat);
  rig.meta.next_answer.set_format(proto::kNewestFormat);
  rig.simulation.run_for(2s);
  rig.stop_server(0);
  rig.start_server(0);
  EXPECT_EQ(rig.store(0).identity().format, proto::kNewestFormat);
}

TEST(MetaserverLink, ReportsAllChunksInPagesWhenAsked) {
  ClusterRig rig(1);
  for (uint64_t stripe = 1; stripe <= 30; ++stripe)
    KINTSUGI_ASSERT_OK(rig.put(0, chunk_id(stripe), chunk_bytes(100, stripe)));
  rig.simulation.run_for(2s);
  rig.meta.reports.clear();
  rig.meta.next_answer.set_report_blocks(true);
  rig.simulation.run_for(2s);
  ASSERT_EQ(rig.meta.reports.size(), 1u);
  ASSERT_EQ(rig.meta.reports[0].chunks_size(), 30);
  EXPECT_EQ(rig.meta.reports[0].chunks(4).stripe_id(), 5u);
  EXPECT_EQ(rig.meta.reports[0].chunks(4).crc(), crc32c(chunk_bytes(100, 5)));
}

TEST(MetaserverLink, DeletesWhatItIsTold) {
  ClusterRig rig(1);
  for (uint64_t stripe = 1; stripe <= 20; ++stripe) {
    KINTSUGI_ASSERT_OK(rig.put(0, chunk_id(stripe), chunk_bytes(stripe % 2 == 0 ? 100 : 2 * kMiB, stripe)));
  }
  rig.simulation.run_for(2s);
  for (uint64_t stripe = 1; stripe <= 15; ++stripe) {
    rig.meta.next_answer.add_delete_chunks()->set_stripe_id(stripe);
  }
  rig.meta.next_answer.add_delete_chunks()->set_stripe_id(1234);  // unknown: fine
  rig.simulation.run_for(3s);
  EXPECT_EQ(rig.store(0).chunks(), 5u);
  EXPECT_FALSE(rig.store(0).find(chunk_id(15)));
  EXPECT_TRUE(rig.store(0).find(chunk_id(16)));
}

TEST(MetaserverLink, ADeletionThatWaitsIsDroppedWhenTheChunkIsWrittenAgain) {
  ClusterRig rig(1);
  constexpr uint64_t kVictims = 300;
  for (uint64_t stripe = 1; stripe <= kVictims; ++stripe)
    KINTSUGI_ASSERT_OK(rig.put(0, chunk_id(stripe), chunk_bytes(kMiB, stripe)));
  rig.simulation.run_for(2s);
  for (uint64_t stripe = 1; stripe <= kVictims; ++stripe)
    rig.meta.next_answer.add_delete_chunks()->set_stripe_id(stripe);
  ASSERT_TRUE(rig.simulation.run_until([&] { return rig.store(0).chunks() < kVictims; }, 5s));
  ASSERT_TRUE(rig.store(0).find(chunk_id(kVictims))) << "its turn has not come yet";
  KINTSUGI_ASSERT_OK(rig.put(0, chunk_id(kVictims), chunk_bytes(kMiB, kVictims)));
  rig.simulation.run_for(20s);
  EXPECT_EQ(rig.store(0).chunks(), 1u);
  EXPECT_TRUE(rig.store(0).find(chunk_id(kVictims)));
}

TEST(MetaserverLink, ReportsItsChunksOnceADiskAnswersThatHungWhenOneWasToBeDeleted) {
  ClusterRig rig(1);
  KINTSUGI_ASSERT_OK(rig.put(0, chunk_id(1), chunk_bytes(2 * kMiB, 1)));
  rig.simulation.run_for(2s);
  rig.servers[0].node->disk().set_hung(true, "/disk");
  rig.simulation.run_for(DiskHealth::kHungAfter + 2s);
  rig.meta.next_answer.add_delete_chunks()->set_stripe_id(1);
  rig.simulation.run_for(3s);
  rig.meta.reports.clear();
  rig.simulation.run_for(60s);
  EXPECT_TRUE(rig.meta.reports.empty()) << "it hangs still";
  rig.servers[0].node->disk().set_hung(false, "/disk");
  rig.simulation.run_for(5s);
  ASSERT_EQ(rig.meta.reports.size(), 1u)
      << "the metaserver believes it deleted until the next report, in an hour";
  EXPECT_EQ(rig.meta.reports[0].chunks_size(), 1);
}

TEST(MetaserverLink, ADeletionThatFailedIsTriedAgainAndAcknowledgedOnlyThen) {
  ClusterRig rig(1);
  for (uint64_t stripe = 1; stripe <= 2; ++stripe)
    KINTSUGI_ASSERT_OK(rig.put(0, chunk_id(stripe), chunk_bytes(100, stripe)));
  rig.simulation.run_for(2s);
  simulation::SimDisk& disk = rig.servers[0].node->disk();
  disk.fail_next(100, Code::kNoSpace, "/disk", simulation::DiskOp::kWrite);
  for (uint64_t stripe = 1; stripe <= 2; ++stripe)
    rig.meta.next_answer.add_delete_chunks()->set_stripe_id(stripe);
  rig.meta.next_answer.set_orders(7);
  rig.simulation.run_for(5s);
  EXPECT_TRUE(rig.store(0).find(chunk_id(1))) << "its tombstone has no room";
  EXPECT_EQ(rig.meta.heartbeats.back().orders_received(), 7u);
  EXPECT_EQ(rig.meta.heartbeats.back().orders_done(), 0u);
  disk.forget_faults();
  // The disk reports more room, and takes chunks again.
  disk.set_capacity("/", simulation::SimDisk::kDefaultCapacity + (uint64_t{64} << 20));
  rig.simulation.run_for(1100ms);
  KINTSUGI_ASSERT_OK(rig.rebuild(0, chunk_id(2), chunk_bytes(100, 2)));
  rig.simulation.run_for(15s);
  EXPECT_FALSE(rig.store(0).find(chunk_id(1)));
  EXPECT_TRUE(rig.store(0).find(chunk_id(2))) << "it was written again meanwhile";
  EXPECT_EQ(rig.meta.heartbeats.back().orders_done(), 7u);
}

TEST(MetaserverLink, RegistersAgainWhenToldAndWhenTheMetaserverWasAway) {
  ClusterRig rig(1);
  rig.simulation.run_for(2s);
  rig.meta.next_answer.set_register_again(true);
  rig.simulation.run_for(2s);
  EXPECT_EQ(rig.meta.registrations.size(), 2u);
  EXPECT_EQ(rig.meta.reports.size(), 2u);
  EXPECT_EQ(rig.meta.registrations[0].incarnation(), rig.meta.registrations[1].incarnation());

  rig.simulation.network().isolate("meta");
  rig.simulation.run_for(2min);
  const size_t before = rig.meta.heartbeats.size();
  rig.simulation.network().heal();
  rig.simulation.run_for(10s);
  EXPECT_GT(rig.meta.heartbeats.size(), before + 3);
}

TEST(MetaserverLink, NamesTheProcessWhosePlaceItTakesOnceItIsTold) {
  ClusterRig rig(1);
  rig.meta.replaces = 17;
  rig.simulation.run_for(2s);
  ASSERT_EQ(rig.meta.registrations.size(), 2u);
  EXPECT_EQ(rig.meta.registrations[0].replaces(), 0u);
  EXPECT_EQ(rig.meta.registrations[1].replaces(), 17u);
  EXPECT_TRUE(rig.servers[0].server->registered());
}

TEST(MetaserverLink, LostChunksAreReportedUntilTheMetaserverHeard) {
  ClusterRig rig(1);
  KINTSUGI_ASSERT_OK(rig.put(0, chunk_id(0x51), chunk_bytes(2 * kMiB, 1)));
  KINTSUGI_ASSERT_OK(rig.servers[0].node->disk().flip_bit(
      chunk_file(rig.servers[0].node->disk(), "/disk", chunk_id(0x51, 0)), 5000));
  rig.simulation.run_for(2s);
  rig.simulation.network().isolate("meta");
  EXPECT_FALSE(rig.get(0, chunk_id(0x51)));
  rig.simulation.run_for(30s);
  rig.meta.heartbeats.clear();
  rig.simulation.network().heal();
  rig.simulation.run_for(30s);
  size_t reported = 0;
  for (const auto& heartbeat : rig.meta.heartbeats)
    reported += heartbeat.lost_size();
  EXPECT_GE(reported, 1u);
  EXPECT_EQ(rig.meta.heartbeats.back().lost_size(), 0);
}

TEST(MetaserverLink, ADiskOfAnotherClusterIsRefused) {
  ClusterRig rig(1);
  rig.simulation.run_for(1s);
  rig.stop_server(0);
  rig.meta.cluster = "red";
  rig.meta.registrations.clear();
  rig.start_server(0);
  rig.simulation.run_for(10s);
  EXPECT_FALSE(rig.servers[0].server->registered());
  EXPECT_EQ(rig.meta.registrations.size(), 1u);
  ASSERT_EQ(rig.refused.size(), 1u);
  EXPECT_EQ(rig.refused[0].code(), Code::kConflict);
}

TEST(MetaserverLink, ARemovedServerIsToldToEndAndNothingElseIsAReasonTo) {
  ClusterRig rig(1);
  rig.simulation.run_for(3s);
  for (const Code code : {Code::kConflict, Code::kUnavailable, Code::kPermissionDenied,
                          Code::kInvalidArgument, Code::kLimitExceeded, Code::kInternal, Code::kCancelled}) {
    rig.meta.refusal = {code, "not now"};
    rig.simulation.run_for(5s);
    rig.meta.refusal = {};
    rig.meta.heartbeats.clear();
    rig.simulation.run_for(5s);
    EXPECT_FALSE(rig.meta.heartbeats.empty()) << code_name(code);
  }
  EXPECT_TRUE(rig.refused.empty());
  rig.meta.refusal = {Code::kNotFound, "server 7 was removed"};
  rig.simulation.run_for(5s);
  ASSERT_EQ(rig.refused.size(), 1u);
  EXPECT_NE(rig.refused[0].message().find("server 7 was removed"), std::string::npos) << rig.refused[0];
  rig.meta.heartbeats.clear();
  rig.simulation.run_for(10s);
  EXPECT_TRUE(rig.meta.heartbeats.empty());
}

TEST(MetaserverLink, AProcessThatAnotherOneHasTakenThePlaceOfIsToldToEnd) {
  ClusterRig rig(1);
  rig.simulation.run_for(3s);
  rig.meta.refusal = {Code::kAlreadyExists, "another process has registered"};
  rig.simulation.run_for(5s);
  ASSERT_EQ(rig.refused.size(), 1u);
  EXPECT_EQ(rig.refused[0].code(), Code::kAlreadyExists);
  EXPECT_NE(rig.refused[0].message().find("another process has registered"), std::string::npos)
      << rig.refused[0];
  rig.meta.heartbeats.clear();
  rig.meta.registrations.clear();
  rig.simulation.run_for(10s);
  EXPECT_TRUE(rig.meta.heartbeats.empty());
  EXPECT_TRUE(rig.meta.registrations.empty());
}

TEST(MetaserverLink, AnErrorOfTheDiskIsNoRefusalWhateverItsCode) {
  ClusterRig rig(1);
  rig.stop_server(0);
  simulation::SimDisk& disk = rig.servers[0].node->disk();
  for (const Code code : {Code::kNotFound, Code::kAlreadyExists}) {
    KINTSUGI_ASSERT_OK(disk.remove_all("/disk"));  // so that a registration writes to the disk
    rig.simulation.network().isolate("meta");
    rig.start_server(0);
    disk.fail_next(1, code, "/disk/tmp/server_id", simulation::DiskOp::kOpen);
    rig.simulation.network().heal();
    rig.simulation.run_for(30s);
    EXPECT_TRUE(rig.refused.empty()) << code_name(code);
    EXPECT_TRUE(rig.servers[0].server->registered());
    rig.stop_server(0);
  }
}

TEST(MetaserverLink, AServerWhoseReportsAreRefusedIsHeardAndRegistersAgain) {
  ClusterRig rig(1);
  rig.simulation.run_for(3s);
  rig.meta.report_refusal = {Code::kConflict, "server 7 must register before it reports"};
  rig.meta.next_answer.set_report_blocks(true);
  rig.simulation.run_for(2s);
  rig.meta.reports.clear();
  rig.meta.heartbeats.clear();
  rig.simulation.run_for(30s);
  EXPECT_GE(rig.meta.reports.size(), 5u);
  EXPECT_LE(rig.meta.reports.size(), 12u);
  EXPECT_GE(rig.meta.heartbeats.size(), 20u) << "it would count as dead";
  const size_t registrations = rig.meta.registrations.size();
  rig.meta.next_answer.set_register_again(true);
  rig.meta.report_refusal = {};
  rig.meta.reports.clear();
  rig.simulation.run_for(5s);
  EXPECT_EQ(rig.meta.registrations.size(), registrations + 1);
  EXPECT_FALSE(rig.meta.reports.empty());
}

TEST(MetaserverLink, ARemovedServerIsToldToEndWhateverItSaysNext) {
  for (const bool report : {true, false}) {
    ClusterRig rig(1);
    rig.simulation.run_for(3s);
    if (report) {
      rig.meta.next_answer.set_report_blocks(true);
    } else {
      rig.meta.next_answer.set_register_again(true);
    }
    rig.meta.heartbeats.clear();
    ASSERT_TRUE(rig.simulation.run_until([&] { return !rig.meta.heartbeats.empty(); }, 5s));
    rig.meta.refusal = {Code::kNotFound, "removed"};
    rig.simulation.run_for(5s);
    EXPECT_EQ(rig.refused.size(), 1u);
  }
}

}  // namespace
}  // namespace kintsugi::chunkserver
