// VerifyChunks over the wire: chunks are read from the disk, whatever is in memory.
#include "tests/chunkserver/cluster_rig.h"
#include "tests/expect_ok.h"

namespace kintsugi::chunkserver {
namespace {

using proto::VerifiedChunk;

/// What one call brought.
struct Verified {
  std::vector<VerifiedChunk> chunks;
  std::vector<TimePoint> frames;  ///< when each came
  uint64_t bytes = 0;
};

proto::VerifyChunksRequest request_for(ClusterRig& rig, const std::vector<ChunkId>& chunks,
                                       uint64_t bytes_per_second = 0) {
  proto::VerifyChunksRequest request;
  request.set_bytes_per_second(bytes_per_second);
  for (ChunkId id : chunks) {
    proto::VerifyChunksRequest::Chunk* chunk = request.add_chunks();
    chunk->set_stripe_id(id.stripe.value);
    chunk->set_index(id.index);
    chunk->set_capability(rig.capability(id, rpc::kOpRead));
  }
  return request;
}

asio::awaitable<Result<Verified>> call(ClusterRig& rig, proto::VerifyChunksRequest request) {
  auto stream =
      co_await rig.client.open_stream(Context{}, rig.endpoint(0), rpc::Method::kVerifyChunks, request);
  if (!stream) co_return stream.error();
  Verified verified;
  while (true) {
    proto::VerifyChunksData data;
    proto::VerifyChunksDone done;
    auto frame = co_await (*stream)->receive(data, done);
    if (!frame) co_return frame.error();
    if (frame->end) break;
    verified.frames.push_back(rig.simulation.now());
    verified.bytes += data.bytes();
    verified.chunks.insert(verified.chunks.end(), data.chunks().begin(), data.chunks().end());
  }
  KINTSUGI_CO_TRY(co_await (*stream)->send_end(proto::Empty::default_instance()));
  rig.client.finish(rig.endpoint(0), std::move(*stream));
  co_return verified;
}

Result<Verified> verify(ClusterRig& rig, const std::vector<ChunkId>& chunks, uint64_t bytes_per_second = 0) {
  return rig.simulation.run(call(rig, request_for(rig, chunks, bytes_per_second)));
}

simulation::SimDisk& disk_of(ClusterRig& rig) {
  return rig.servers[0].node->disk();
}

std::string file_of(ClusterRig& rig, uint64_t stripe) {
  return chunk_file(disk_of(rig), "/disk", chunk_id(stripe));
}

TEST(VerifyChunks, TellsWholeMissingAndDamagedChunksApart) {
  ClusterRig rig(1);
  for (uint64_t stripe = 1; stripe <= 7; ++stripe)
    KINTSUGI_ASSERT_OK(rig.put(0, chunk_id(stripe), chunk_bytes(2 * kMiB + stripe, stripe)));
  KINTSUGI_ASSERT_OK(rig.put(0, chunk_id(8), chunk_bytes(5000, 8)));
  KINTSUGI_ASSERT_OK(rig.put(0, chunk_id(9), chunk_bytes(70'000, 9)));
  for (uint64_t stripe : {4, 6})
    ASSERT_TRUE(rig.get(0, chunk_id(stripe))) << "it is open and in memory";
  KINTSUGI_ASSERT_OK(disk_of(rig).flip_bit(file_of(rig, 2), kChunkDataOffset + kMiB));
  const uint64_t length = 2 * kMiB + 3;
  KINTSUGI_ASSERT_OK(
      disk_of(rig).flip_bit(file_of(rig, 3), chunk_file_bytes(length) - 4096));  // its table of CRCs
  KINTSUGI_ASSERT_OK(disk_of(rig).flip_bit(file_of(rig, 4), 9));                 // its header
  KINTSUGI_ASSERT_OK(disk_of(rig).remove_all(file_of(rig, 6)));
  const std::vector<ChunkId> asked{chunk_id(1), chunk_id(2), chunk_id(3),  chunk_id(4), chunk_id(5),
                                   chunk_id(6), chunk_id(7), chunk_id(99), chunk_id(8), chunk_id(9)};
  const auto verified = verify(rig, asked);
  ASSERT_TRUE(verified) << verified.error();
  std::vector<VerifiedChunk::Verdict> verdicts;
  for (const VerifiedChunk& chunk : verified->chunks)
    verdicts.push_back(chunk.verdict());
  EXPECT_EQ(verdicts, (std::vector{VerifiedChunk::WHOLE, VerifiedChunk::CORRUPT, VerifiedChunk::CORRUPT,
                                   VerifiedChunk::CORRUPT, VerifiedChunk::WHOLE, VerifiedChunk::MISSING,
                                   VerifiedChunk::WHOLE, VerifiedChunk::MISSING, VerifiedChunk::WHOLE,
                                   VerifiedChunk::WHOLE}));
  EXPECT_EQ(verified->chunks[0].length(), 2 * kMiB + 1);
  EXPECT_EQ(verified->chunks[0].crc(), crc32c(chunk_bytes(2 * kMiB + 1, 1)));
  EXPECT_EQ(verified->chunks[8].crc(), crc32c(chunk_bytes(5000, 8)));
  EXPECT_NE(verified->chunks[1].detail().find("block 16"), std::string::npos) << verified->chunks[1].detail();
  // What is damaged is told once, as lost, with the next heartbeat.
  rig.simulation.run_for(3s);
  std::multiset<uint64_t> lost;
  for (const auto& heartbeat : rig.meta.heartbeats)
    for (const auto& chunk : heartbeat.lost())
      lost.insert(chunk.stripe_id());
  EXPECT_EQ(lost, (std::multiset<uint64_t>{2, 3, 4, 6}));
  EXPECT_EQ(rig.get(0, chunk_id(2)).error().code(), Code::kNotFound) << "it is not served any more";
}

TEST(VerifyChunks, ReadsTheDiskThoughEverythingIsInMemory) {
  ClusterRig rig(1);
  const auto bytes = chunk_bytes(3 * kMiB, 1);
  KINTSUGI_ASSERT_OK(rig.put(0, chunk_id(1), bytes));
  ASSERT_TRUE(rig.get(0, chunk_id(1)));
  ASSERT_TRUE(rig.store(0).cache().cached(chunk_id(1)));
  const uint64_t read = rig.store(0).disk_bytes_read();
  const auto counters = rig.store(0).cache().counters();
  const auto whole = verify(rig, {chunk_id(1)});
  ASSERT_TRUE(whole) << whole.error();
  EXPECT_EQ(whole->chunks.at(0).verdict(), VerifiedChunk::WHOLE);
  EXPECT_EQ(whole->bytes, 3 * kMiB);
  EXPECT_GE(rig.store(0).disk_bytes_read() - read, 3 * kMiB);
  EXPECT_EQ(rig.store(0).cache().counters().background_misses, counters.background_misses);
  EXPECT_EQ(rig.store(0).cache().counters().misses, counters.misses);
  KINTSUGI_ASSERT_OK(disk_of(rig).flip_bit(file_of(rig, 1), kChunkDataOffset + 2 * kMiB));
  EXPECT_EQ(*rig.get(0, chunk_id(1)), bytes) << "memory is right";
  EXPECT_EQ(verify(rig, {chunk_id(1)})->chunks.at(0).verdict(), VerifiedChunk::CORRUPT);
}

TEST(VerifyChunks, PutsNothingIntoMemory) {
  ClusterRig rig(1);
  KINTSUGI_ASSERT_OK(rig.put(0, chunk_id(1), chunk_bytes(3 * kMiB, 1)));
  ASSERT_TRUE(verify(rig, {chunk_id(1)}));
  EXPECT_EQ(rig.store(0).cache().cached_bytes(), 0u);
  EXPECT_EQ(rig.store(0).usage().heat(chunk_id(1)), 0);
  EXPECT_EQ(rig.servers[0].server->counters().user_bytes, 3 * kMiB) << "only the write was a user's";
}

TEST(VerifyChunks, KeepsToTheRateAndTellsHowFarItIs) {
  ClusterRig rig(1);
  KINTSUGI_ASSERT_OK(rig.put(0, chunk_id(1), chunk_bytes(8 * kMiB, 1)));
  rig.simulation.run_for(2s);
  TimePoint began = rig.simulation.now();
  const auto verified = verify(rig, {chunk_id(1)}, kMiB);
  ASSERT_TRUE(verified) << verified.error();
  EXPECT_NEAR(to_seconds(rig.simulation.now() - began), 8, 0.5);
  EXPECT_EQ(verified->bytes, 8 * kMiB);
  for (TimePoint frame : verified->frames) {
    EXPECT_LT(frame - began, 2s) << "a caller would take it for dead";
    began = frame;
  }
  // The least rate there is, too.
  began = rig.simulation.now();
  KINTSUGI_ASSERT_OK(rig.put(0, chunk_id(2), chunk_bytes(kMiB, 2)));
  const auto slow = verify(rig, {chunk_id(2)}, VerifyChunksHandler::kLeastBytesPerSecond);
  ASSERT_TRUE(slow) << slow.error();
  EXPECT_GT(rig.simulation.now() - began, 15s);
  for (TimePoint frame : slow->frames) {
    EXPECT_LT(frame - began, 5s);
    began = frame;
  }
}

TEST(VerifyChunks, YieldsToUsers) {
  ClusterRig rig(1);
  KINTSUGI_ASSERT_OK(rig.put(0, chunk_id(1), chunk_bytes(8 * kMiB, 1)));
  KINTSUGI_ASSERT_OK(rig.put(0, chunk_id(2), chunk_bytes(kMiB, 2)));
  rig.simulation.run_for(2s);
  std::optional<Result<Verified>> verified;
  const TimePoint began = rig.simulation.now();
  auto background = [](ClusterRig& rig, proto::VerifyChunksRequest request,
                       std::optional<Result<Verified>>& out) -> asio::awaitable<void> {
    out = co_await call(rig, std::move(request));
  };
  asio::co_spawn(rig.simulation.executor(),
                 background(rig, request_for(rig, {chunk_id(1)}, 2 * kMiB), verified), asio::detached);
  while (!verified) {
    ASSERT_TRUE(rig.get(0, chunk_id(2)));
    rig.simulation.run_for(20ms);
  }
  ASSERT_TRUE(*verified) << verified->error();
  EXPECT_NEAR(to_seconds(rig.simulation.now() - began), 8, 1) << "alone it would have taken half of that";
}

TEST(VerifyChunks, RefusesWhatItMayNotOrWillNotDo) {
  ClusterRig rig(1);
  KINTSUGI_ASSERT_OK(rig.put(0, chunk_id(1), chunk_bytes(kMiB, 1)));
  KINTSUGI_ASSERT_OK(rig.put(0, chunk_id(2), chunk_bytes(kMiB, 2)));
  const auto code_of = [&](const proto::VerifyChunksRequest& request) {
    const auto answer = rig.simulation.run(call(rig, request));
    return answer ? Code::kOk : answer.error().code();
  };
  proto::VerifyChunksRequest request = request_for(rig, {chunk_id(1), chunk_id(2)});
  EXPECT_EQ(code_of(request), Code::kOk);
  request.mutable_chunks(1)->set_capability(rig.capability(chunk_id(1)));
  EXPECT_EQ(code_of(request), Code::kPermissionDenied) << "of another chunk";
  request.mutable_chunks(1)->set_capability(rig.capability(chunk_id(2), rpc::kOpWrite));
  EXPECT_EQ(code_of(request), Code::kPermissionDenied) << "not to read";
  EXPECT_EQ(code_of(request_for(rig, std::vector<ChunkId>(VerifyChunksHandler::kMaxChunks + 1, chunk_id(1)))),
            Code::kInvalidArgument);
  EXPECT_EQ(code_of(request_for(rig, {chunk_id(1)}, VerifyChunksHandler::kLeastBytesPerSecond - 1)),
            Code::kInvalidArgument);
  EXPECT_EQ(code_of(request_for(rig, {})), Code::kOk);
}

/// Begins a call that takes `seconds`, and leaves it alone.
std::unique_ptr<rpc::Stream> begin_slow(ClusterRig& rig) {
  auto open = [](ClusterRig& rig) -> asio::awaitable<Result<std::unique_ptr<rpc::Stream>>> {
    co_return co_await rig.client.open_stream(Context{}, rig.endpoint(0), rpc::Method::kVerifyChunks,
                                              request_for(rig, {chunk_id(1)}, 128 << 10));
  };
  auto stream = rig.simulation.run(open(rig));
  KINTSUGI_ASSERT(stream);
  rig.simulation.run_for(3s);
  return std::move(*stream);
}

TEST(VerifyChunks, RunsFewCallsAtATimeAndEndsThemWhenTheirCallersLeave) {
  ClusterRig rig(1);
  KINTSUGI_ASSERT_OK(rig.put(0, chunk_id(1), chunk_bytes(16 * kMiB, 1)));
  auto first = begin_slow(rig), second = begin_slow(rig);
  EXPECT_EQ(rig.servers[0].server->counters().verifications_running, 2u);
  EXPECT_EQ(verify(rig, {chunk_id(1)}).error().code(), Code::kLimitExceeded);
  first.reset();
  rig.simulation.run_for(3s);
  EXPECT_EQ(rig.servers[0].server->counters().verifications_running, 1u);
  EXPECT_TRUE(verify(rig, {chunk_id(1)}));
  const TimePoint began = rig.simulation.now();
  rig.stop_server(0);
  EXPECT_LT(rig.simulation.now() - began, 1s) << "it rests, and is woken";
}

TEST(VerifyChunks, SaysWhatAShortageOfMemoryKeepsFromItAndGoesOn) {
  ClusterRig rig(1);
  KINTSUGI_ASSERT_OK(rig.put(0, chunk_id(1), chunk_bytes(2 * kMiB, 1)));
  KINTSUGI_ASSERT_OK(rig.put(0, chunk_id(2), chunk_bytes(2 * kMiB, 2)));
  disk_of(rig).fail_next(1, Code::kOutOfMemory, file_of(rig, 1), simulation::DiskOp::kRead);
  const auto verified = verify(rig, {chunk_id(1), chunk_id(2)});
  ASSERT_TRUE(verified) << verified.error();
  EXPECT_EQ(verified->chunks.at(0).verdict(), VerifiedChunk::UNREADABLE);
  EXPECT_EQ(verified->chunks.at(1).verdict(), VerifiedChunk::WHOLE);
  EXPECT_TRUE(rig.get(0, chunk_id(1))) << "nothing was proven against it";
}

TEST(VerifyChunks, FindsAChunkThatTheDiskCannotReadAndLosesItAlone) {
  ClusterRig rig(1);
  KINTSUGI_ASSERT_OK(rig.put(0, chunk_id(1), chunk_bytes(2 * kMiB, 1)));
  KINTSUGI_ASSERT_OK(rig.put(0, chunk_id(2), chunk_bytes(2 * kMiB, 2)));
  KINTSUGI_ASSERT_OK(disk_of(rig).spoil(file_of(rig, 1), kMiB));
  const auto verified = verify(rig, {chunk_id(1), chunk_id(2)});
  ASSERT_TRUE(verified) << verified.error();
  EXPECT_EQ(verified->chunks.at(0).verdict(), VerifiedChunk::UNREADABLE);
  EXPECT_EQ(verified->chunks.at(1).verdict(), VerifiedChunk::WHOLE);
  EXPECT_FALSE(rig.store(0).find(chunk_id(1)));
  rig.simulation.run_for(2s);
  size_t told = 0;
  for (const auto& heartbeat : rig.meta.heartbeats)
    told += static_cast<size_t>(heartbeat.lost_size());
  EXPECT_EQ(told, 1u);
}

}  // namespace
}  // namespace kintsugi::chunkserver
