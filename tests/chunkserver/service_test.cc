// WriteChunk and ReadChunk over the wire.
#include "tests/chunkserver/cluster_rig.h"
#include "tests/expect_ok.h"

namespace kintsugi::chunkserver {
namespace {

TEST(ChunkService, ReadsBackWhatWasWritten) {
  ClusterRig rig(1);
  uint64_t stripe = 1;
  for (size_t length : {0ul, 1ul, 65'536ul, 700'001ul, kMiB, 5 * kMiB + 3, 20 * kMiB}) {
    auto bytes = chunk_bytes(length, stripe);
    Status stored = rig.put(0, chunk_id(stripe), bytes);
    KINTSUGI_ASSERT_OK(stored);
    auto read = rig.get(0, chunk_id(stripe));
    ASSERT_TRUE(read) << read.error();
    EXPECT_EQ(*read, bytes);
    ++stripe;
  }
}

TEST(ChunkService, WidensARangeToWholeBlocksAndCutsItAtTheEnd) {
  ClusterRig rig(1);
  const size_t length = 3 * kMiB + 1000;
  auto bytes = chunk_bytes(length, 1);
  KINTSUGI_ASSERT_OK(rig.put(0, chunk_id(1), bytes));
  auto slice = [&](uint64_t begin, uint64_t end) {
    return std::vector<std::byte>(bytes.begin() + begin, bytes.begin() + end);
  };
  EXPECT_EQ(*rig.get(0, chunk_id(1), 70'000, 10), slice(kBlockBytes, 2 * kBlockBytes));
  EXPECT_EQ(*rig.get(0, chunk_id(1), kBlockBytes - 1, 2), slice(0, 2 * kBlockBytes));
  EXPECT_EQ(*rig.get(0, chunk_id(1), length - 1, 1000), slice(3 * kMiB, length));
  EXPECT_EQ(*rig.get(0, chunk_id(1), length, 1000), slice(0, 0));
  EXPECT_EQ(*rig.get(0, chunk_id(1), 5, 0), slice(0, 0));
  EXPECT_EQ(rig.get(0, chunk_id(1), length + 1, 1).error().code(), Code::kInvalidArgument);
  EXPECT_EQ(*rig.get(0, chunk_id(1), 100, UINT64_MAX), bytes);
  EXPECT_EQ(rig.get(0, chunk_id(2)).error().code(), Code::kNotFound);
}

struct Write {
  uint64_t max_bytes = 4 * kMiB;
  std::string policy = kTestPolicy;
  std::optional<std::string> capability;
  struct Frame {
    uint64_t offset = 0;
    size_t bytes = kMiB;
    uint32_t crc_error = 0;
    bool no_crcs = false;
  };
  std::vector<Frame> frames;
  std::optional<uint64_t> seal_length;
  uint32_t seal_error = 0;
  bool leave = false;  ///< close the stream instead of sealing
};

asio::awaitable<Status> try_write(ClusterRig& rig, rpc::Client& client, ChunkId id, Write write) {
  proto::WriteChunkRequest request;
  request.set_stripe_id(id.stripe.value);
  request.set_index(id.index);
  request.set_policy(write.policy);
  request.set_capability(write.capability ? *write.capability : rig.capability(id));
  request.set_max_bytes(write.max_bytes);
  auto stream = co_await client.open_stream(Context{}, rig.endpoint(0), rpc::Method::kWriteChunk, request);
  if (!stream) co_return stream.error();
  std::vector<std::byte> all;
  for (const Write::Frame& frame : write.frames) {
    auto bytes = chunk_bytes(frame.bytes, 1);
    all.insert(all.end(), bytes.begin(), bytes.end());
    proto::WriteChunkData data;
    data.set_offset(frame.offset);
    for (uint32_t crc : crc32c_blocks(bytes))
      data.add_block_crcs(crc ^ frame.crc_error);
    if (frame.no_crcs) data.clear_block_crcs();
    const asio::const_buffer payload(bytes.data(), bytes.size());
    (void)co_await (*stream)->send(data, std::span(&payload, 1));
  }
  if (write.leave) {
    (*stream)->close();
    co_return Status{Code::kCancelled, "left"};
  }
  proto::WriteChunkSeal seal;
  seal.set_length(write.seal_length ? *write.seal_length : all.size());
  seal.set_crc(crc32c(all) ^ write.seal_error);
  (void)co_await (*stream)->send_end(seal);
  proto::WriteChunkDone done;
  auto answer = co_await (*stream)->receive(done);
  if (!answer) co_return answer.error();
  co_return Status{};
}

asio::awaitable<Status> try_write(ClusterRig& rig, ChunkId id, Write write) {
  return try_write(rig, rig.client, id, std::move(write));
}

TEST(ChunkService, RefusesBadWritesAndKeepsNothingOfThem) {
  ClusterRig rig(1);
  uint64_t stripe = 1;
  auto code_of = [&](Write write) {
    return rig.simulation.run(try_write(rig, chunk_id(stripe++), write)).code();
  };
  EXPECT_EQ(code_of({.frames = {{0}, {kMiB}}}), Code::kOk);
  EXPECT_EQ(code_of({.frames = {{0}, {2 * kMiB}}}), Code::kInvalidArgument);
  EXPECT_EQ(code_of({.frames = {{0}, {0}}}), Code::kInvalidArgument);
  EXPECT_EQ(code_of({.frames = {{kMiB}}}), Code::kInvalidArgument);
  EXPECT_EQ(code_of({.frames = {{.offset = 0, .bytes = 0}}}), Code::kInvalidArgument);
  EXPECT_EQ(code_of({.frames = {{.offset = 0, .bytes = 2 * kMiB}}}), Code::kInvalidArgument);
  EXPECT_EQ(code_of({.frames = {{.offset = 0, .bytes = 100}, {.offset = 100}}}), Code::kInvalidArgument);
  EXPECT_EQ(code_of({.frames = {{.offset = 0, .bytes = kMiB, .crc_error = 1}}}), Code::kCorrupt);
  EXPECT_EQ(code_of({.frames = {{.offset = 0, .bytes = kMiB, .crc_error = 0, .no_crcs = true}}}),
            Code::kInvalidArgument);
  EXPECT_EQ(code_of({.max_bytes = 10, .frames = {{0}}}), Code::kInvalidArgument);
  EXPECT_EQ(code_of({.max_bytes = UINT64_MAX}), Code::kInvalidArgument);
  EXPECT_EQ(code_of({.policy = "rs-6"}), Code::kInvalidArgument);
  EXPECT_EQ(code_of({.policy = std::string(1000, 'x')}), Code::kInvalidArgument);
  EXPECT_EQ(code_of({.frames = {{0}}, .seal_length = kMiB - 1}), Code::kInvalidArgument);
  EXPECT_EQ(code_of({.frames = {{0}}, .seal_error = 1}), Code::kCorrupt);
  EXPECT_EQ(code_of({.frames = {{0}, {kMiB}}, .leave = true}), Code::kCancelled);
  EXPECT_EQ(rig.simulation.run(try_write(rig, chunk_id(50, 9), {.frames = {{0}}})).code(),
            Code::kInvalidArgument);
  rig.simulation.run_for(1s);
  EXPECT_EQ(rig.store(0).chunks(), 1u);
  EXPECT_EQ(rig.store(0).open_writers(), 0u);
  EXPECT_TRUE(rig.servers[0].node->disk().list_now("/disk/tmp").empty());
  // The server serves on.
  KINTSUGI_EXPECT_OK(rig.put(0, chunk_id(99), chunk_bytes(kMiB, 5)));
}

TEST(ChunkService, AStreamThatComesAfterItsChunkWasRemovedIsRefused) {
  ClusterRig rig(1);
  const Write write{.frames = {{0}}};
  KINTSUGI_ASSERT_OK(rig.simulation.run(try_write(rig, chunk_id(1), write)));
  (void)rig.simulation.run(rig.store(0).remove(Context{}, chunk_id(1)));
  EXPECT_EQ(rig.simulation.run(try_write(rig, chunk_id(1), write)).code(), Code::kConflict);
  EXPECT_FALSE(rig.store(0).find(chunk_id(1)));
  KINTSUGI_EXPECT_OK(rig.simulation.run(try_write(rig, chunk_id(2), write)));
}

TEST(ChunkService, NeedsTheRightCapability) {
  ClusterRig rig(1);
  const ChunkId id = chunk_id(1);
  const WallTime now = rig.client_runtime.clock.wall_now();
  std::array<std::byte, 32> other_key{};
  other_key[0] = std::byte{1};
  const std::vector<std::string> wrong{"",
                                       "nonsense",
                                       rig.capability(chunk_id(2)),
                                       rig.capability(chunk_id(1, 1)),
                                       rig.capability(id, rpc::kOpRead),
                                       rpc::make_capability(rig.secret, id, kAllOps, now - 1s),
                                       rpc::make_capability(rpc::Secret(other_key), id, kAllOps, now + 1h)};
  for (const std::string& capability : wrong) {
    Write write{.capability = capability, .frames = {{0}}};
    EXPECT_EQ(rig.simulation.run(try_write(rig, id, write)).code(), Code::kPermissionDenied);
  }
  EXPECT_EQ(rig.store(0).chunks(), 0u);
}

TEST(ChunkService, ACorruptBlockIsAnErrorOfTheReadAndReportedWithTheNextHeartbeat) {
  ClusterRig rig(1);
  KINTSUGI_ASSERT_OK(rig.put(0, chunk_id(0x51), chunk_bytes(5 * kMiB, 1)));
  KINTSUGI_ASSERT_OK(rig.servers[0].node->disk().flip_bit(
      chunk_file(rig.servers[0].node->disk(), "/disk", chunk_id(0x51, 0)), 4096 + 3 * kMiB));
  auto read = rig.get(0, chunk_id(0x51));
  EXPECT_EQ(read.error().code(), Code::kCorrupt) << read.error();
  EXPECT_NE(read.error().message().find("block 48"), std::string::npos);
  rig.simulation.run_for(3s);
  size_t reported = 0;
  for (const auto& heartbeat : rig.meta.heartbeats) {
    for (const auto& lost : heartbeat.lost())
      reported += lost.stripe_id() == 0x51 && lost.length() == 5 * kMiB;
  }
  EXPECT_EQ(reported, 1u);
}

TEST(ChunkService, ManyClientsShareAFewBuffers) {
  ClusterRig rig(1);
  KINTSUGI_ASSERT_OK(rig.put(0, chunk_id(1), chunk_bytes(8 * kMiB, 1)));
  size_t ended = 0;
  auto one = [](ClusterRig& rig, uint64_t stripe, size_t& ended) -> asio::awaitable<void> {
    auto bytes = chunk_bytes(3 * kMiB + stripe, stripe);
    Status stored = co_await ClusterRig::put_chunk(rig, 0, chunk_id(stripe), bytes);
    KINTSUGI_EXPECT_OK(stored);
    auto read = co_await ClusterRig::get_chunk(rig, 0, chunk_id(1), 0, kMaxChunkBytes);
    EXPECT_TRUE(read) << read.error();
    ++ended;
  };
  for (uint64_t stripe = 100; stripe < 200; ++stripe) {
    asio::co_spawn(rig.simulation.executor(), one(rig, stripe, ended), asio::detached);
  }
  EXPECT_TRUE(rig.simulation.run_until([&] { return ended == 100; }));
}

/// A machine whose link can be cut, and the client on it.
struct Machine {
  Machine(ClusterRig& rig, std::string name)
      : node(rig.simulation, std::move(name)), runtime(node.runtime()), client(runtime, rig.secret) {}
  simulation::SimNode node;
  runtime::Runtime runtime;
  rpc::Client client;
};

TEST(ChunkService, WritersThatStallWithinAFrameDoNotHoldUpOthersForLong) {
  ClusterRig rig(1);
  Machine other(rig, "other");
  constexpr size_t kWriters = 20;
  std::vector<std::unique_ptr<Machine>> stalling;
  size_t ended = 0;
  auto one = [](ClusterRig& rig, rpc::Client& client, uint64_t stripe,
                size_t& ended) -> asio::awaitable<void> {
    (void)co_await try_write(rig, client, chunk_id(stripe), {.frames = {{0}}});
    ++ended;
  };
  for (uint64_t machine = 0; machine < 5; ++machine) {
    stalling.push_back(std::make_unique<Machine>(rig, "stalling" + std::to_string(machine)));
    rig.simulation.network().set_link(stalling.back()->node.name(), 30 * kMiB, 0);
    for (uint64_t stripe = 0; stripe < kWriters; ++stripe)
      asio::co_spawn(rig.simulation.executor(),
                     one(rig, stalling.back()->client, 100 * (machine + 1) + stripe, ended), asio::detached);
  }
  rig.simulation.run_for(500ms);
  for (const auto& machine : stalling)
    rig.simulation.network().isolate(machine->node.name());
  rig.simulation.run_for(100ms);
  ASSERT_EQ(ended, 0u);
  ASSERT_LT(rig.servers[0].server->buffers().free(), 16u) << "few are left for others";

  const TimePoint began = rig.simulation.now();
  Write write{.frames = {{0}, {kMiB}}};
  Status written = rig.simulation.run(try_write(rig, other.client, chunk_id(1), write));
  KINTSUGI_EXPECT_OK(written);
  EXPECT_LT(rig.simulation.now() - began, 10s);
  EXPECT_GT(rig.store(0).open_writers(), 30u) << "most of them may go on when the network is back";
  for (const auto& machine : stalling)
    rig.simulation.network().rejoin(machine->node.name());
  EXPECT_TRUE(rig.simulation.run_until([&] { return ended == 5 * kWriters; }));
  rig.simulation.run(other.client.stop());
  for (const auto& machine : stalling)
    rig.simulation.run(machine->client.stop());
}

/// Readers that ask for a chunk and take nothing of it.
struct DeafReaders {
  DeafReaders(ClusterRig& rig, simulation::SimNode& node)
      : rig(rig), runtime(node.runtime()), client(runtime, rig.secret) {}

  asio::awaitable<Status> add(ChunkId id) {
    proto::ReadChunkRequest request;
    request.set_stripe_id(id.stripe.value);
    request.set_index(id.index);
    request.set_capability(rig.capability(id));
    request.set_length(kMaxChunkBytes);
    auto stream = co_await client.open_stream(Context{}, rig.endpoint(0), rpc::Method::kReadChunk, request);
    if (!stream) co_return stream.error();
    streams.push_back(std::move(*stream));
    co_return Status{};
  }

  ClusterRig& rig;
  runtime::Runtime runtime;
  rpc::Client client;
  std::vector<std::unique_ptr<rpc::Stream>> streams;
};

TEST(ChunkService, ReadersThatTakeNothingLeaveBuffersToOtherPeers) {
  ClusterRig rig(1);
  const auto bytes = chunk_bytes(20 * kMiB, 1);
  KINTSUGI_ASSERT_OK(rig.put(0, chunk_id(1), bytes));
  simulation::SimNode node(rig.simulation, "deaf");
  DeafReaders deaf(rig, node);
  for (int i = 0; i < 100; ++i)
    KINTSUGI_ASSERT_OK(rig.simulation.run(deaf.add(chunk_id(1))));
  rig.simulation.run_for(5s);
  const size_t free = rig.servers[0].server->buffers().free();
  EXPECT_GE(free, 30u) << "of 64";
  const TimePoint began = rig.simulation.now();
  const auto read = rig.get(0, chunk_id(1));
  ASSERT_TRUE(read) << read.error();
  EXPECT_EQ(*read, bytes);
  KINTSUGI_EXPECT_OK(rig.put(0, chunk_id(2), bytes));
  EXPECT_LT(rig.simulation.now() - began, 2s);
  deaf.streams.clear();
  rig.simulation.run(deaf.client.stop());
}

}  // namespace
}  // namespace kintsugi::chunkserver
