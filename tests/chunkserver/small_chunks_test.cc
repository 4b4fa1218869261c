// WriteSmallChunk and ReadSmallChunk over the wire.
#include "tests/chunkserver/cluster_rig.h"
#include "tests/expect_ok.h"

namespace kintsugi::chunkserver {
namespace {

proto::WriteSmallChunkRequest write_request(ClusterRig& rig, ChunkId id,
                                            const std::vector<std::byte>& bytes) {
  proto::WriteSmallChunkRequest request;
  request.set_stripe_id(id.stripe.value);
  request.set_index(id.index);
  request.set_policy("replication-4-1024k");
  request.set_capability(rig.capability(id));
  request.set_data(bytes.data(), bytes.size());
  request.set_crc(crc32c(bytes));
  return request;
}

asio::awaitable<Status> write_small(ClusterRig& rig, proto::WriteSmallChunkRequest request) {
  proto::Empty done;
  co_return co_await rig.client.call(Context{}, rig.endpoint(0), rpc::Method::kWriteSmallChunk, request,
                                     done);
}

asio::awaitable<Result<std::vector<std::byte>>> read_small(ClusterRig& rig, ChunkId id,
                                                           std::string capability) {
  proto::ReadSmallChunkRequest request;
  request.set_stripe_id(id.stripe.value);
  request.set_index(id.index);
  request.set_capability(std::move(capability));
  proto::ReadSmallChunkResponse response;
  KINTSUGI_CO_TRY(
      co_await rig.client.call(Context{}, rig.endpoint(0), rpc::Method::kReadSmallChunk, request, response));
  const auto data = std::as_bytes(std::span(response.data()));
  EXPECT_EQ(crc32c(data), response.crc());
  co_return std::vector<std::byte>(data.begin(), data.end());
}

Status put_small(ClusterRig& rig, ChunkId id, const std::vector<std::byte>& bytes) {
  return rig.simulation.run(write_small(rig, write_request(rig, id, bytes)));
}

Result<std::vector<std::byte>> get_small(ClusterRig& rig, ChunkId id) {
  return rig.simulation.run(read_small(rig, id, rig.capability(id)));
}

TEST(SmallChunks, OneThatIsForTheServerThatWasAtThisAddressBeforeIsRefused) {
  ClusterRig rig(1);
  proto::WriteSmallChunkRequest request = write_request(rig, chunk_id(1), chunk_bytes(4096, 1));
  request.set_server_id(rig.id(0).value ^ 1);
  EXPECT_EQ(rig.simulation.run(write_small(rig, request)).code(), Code::kUnavailable);
  EXPECT_FALSE(rig.store(0).find(chunk_id(1)));
  request.set_server_id(rig.id(0).value);
  KINTSUGI_EXPECT_OK(rig.simulation.run(write_small(rig, request)));
}

TEST(SmallChunks, OneThatComesAfterItsChunkWasRemovedIsRefused) {
  ClusterRig rig(1);
  const auto bytes = chunk_bytes(4096, 1);
  KINTSUGI_ASSERT_OK(put_small(rig, chunk_id(1), bytes));
  for (const uint64_t stripe : {1, 2})
    (void)rig.simulation.run(rig.store(0).remove(Context{}, chunk_id(stripe)));
  for (const uint64_t stripe : {1, 2}) {
    EXPECT_EQ(put_small(rig, chunk_id(stripe), bytes).code(), Code::kConflict)
        << "there or not, it was to go";
    EXPECT_FALSE(rig.store(0).find(chunk_id(stripe)));
  }
  KINTSUGI_EXPECT_OK(put_small(rig, chunk_id(3), bytes));
  rig.simulation.run_for(11min);
  KINTSUGI_EXPECT_OK(put_small(rig, chunk_id(1), bytes));
}

TEST(SmallChunks, AreTheSameChunksThatStreamsReadAndWrite) {
  ClusterRig rig(1);
  uint64_t stripe = 1;
  for (size_t length : {1ul, 4096ul, 5000ul, 65'536ul}) {
    SCOPED_TRACE(length);
    const auto bytes = chunk_bytes(length, stripe);
    const ChunkId called = chunk_id(stripe), streamed = chunk_id(stripe + 100);
    KINTSUGI_ASSERT_OK(put_small(rig, called, bytes));
    KINTSUGI_ASSERT_OK(rig.put(0, streamed, bytes));
    for (const ChunkId id : {called, streamed}) {
      EXPECT_EQ(*get_small(rig, id), bytes);
      EXPECT_EQ(*rig.get(0, id), bytes);
    }
    ++stripe;
  }
}

TEST(SmallChunks, AreDurableOnceTheWriteIsAnswered) {
  ClusterRig rig(1);
  const auto bytes = chunk_bytes(5000, 1);
  KINTSUGI_ASSERT_OK(put_small(rig, chunk_id(1), bytes));
  rig.servers[0].node->crash();
  rig.stop_server(0);
  rig.servers[0].node->restart();
  rig.start_server(0);
  EXPECT_EQ(*get_small(rig, chunk_id(1)), bytes);
}

TEST(SmallChunks, RefuseWhatIsNoSmallChunkAndKeepNothingOfIt) {
  ClusterRig rig(1);
  const auto bytes = chunk_bytes(5000, 1);
  const auto code_of = [&](auto change) {
    proto::WriteSmallChunkRequest request = write_request(rig, chunk_id(1), bytes);
    change(request);
    return rig.simulation.run(write_small(rig, request)).code();
  };
  EXPECT_EQ(code_of([](auto& request) { request.set_crc(request.crc() ^ 1); }), Code::kCorrupt);
  EXPECT_EQ(code_of([](auto& request) { request.clear_data(); }), Code::kInvalidArgument);
  EXPECT_EQ(code_of([](auto& request) { request.mutable_data()->resize(kBlockBytes + 1); }),
            Code::kInvalidArgument);
  EXPECT_EQ(code_of([](auto& request) { request.set_policy("rs-6"); }), Code::kInvalidArgument);
  EXPECT_EQ(code_of([](auto& request) { request.set_policy("replication-0-1024k"); }),
            Code::kInvalidArgument);
  EXPECT_EQ(code_of([](auto& request) { request.clear_capability(); }), Code::kPermissionDenied);
  EXPECT_EQ(code_of([](auto& request) { request.set_index(1); }), Code::kPermissionDenied);
  EXPECT_EQ(
      code_of([&](auto& request) { request.set_capability(rig.capability(chunk_id(1), rpc::kOpRead)); }),
      Code::kPermissionDenied);
  EXPECT_EQ(rig.store(0).chunks(), 0u);
  EXPECT_EQ(rig.store(0).open_writers(), 0u);
  KINTSUGI_EXPECT_OK(put_small(rig, chunk_id(1), bytes));
}

TEST(SmallChunks, AWriteMayBeRepeatedButNotChanged) {
  ClusterRig rig(1);
  const auto bytes = chunk_bytes(5000, 1);
  KINTSUGI_ASSERT_OK(put_small(rig, chunk_id(1), bytes));
  KINTSUGI_EXPECT_OK(put_small(rig, chunk_id(1), bytes));
  EXPECT_EQ(put_small(rig, chunk_id(1), chunk_bytes(5000, 2)).code(), Code::kAlreadyExists);
  EXPECT_EQ(*get_small(rig, chunk_id(1)), bytes);
  EXPECT_EQ(rig.store(0).chunks(), 1u);
}

TEST(SmallChunks, AreReadOnlyWithTheRightAndWhole) {
  ClusterRig rig(1);
  KINTSUGI_ASSERT_OK(put_small(rig, chunk_id(1), chunk_bytes(5000, 1)));
  KINTSUGI_ASSERT_OK(rig.put(0, chunk_id(2), chunk_bytes(kBlockBytes + 1, 1)));
  KINTSUGI_ASSERT_OK(rig.put(0, chunk_id(3), {}));
  EXPECT_EQ(get_small(rig, chunk_id(2)).error().code(), Code::kInvalidArgument);
  EXPECT_EQ(get_small(rig, chunk_id(3)).error().code(), Code::kInvalidArgument);
  EXPECT_EQ(get_small(rig, chunk_id(4)).error().code(), Code::kNotFound);
  const auto read_with = [&](std::string capability) {
    return rig.simulation.run(read_small(rig, chunk_id(1), std::move(capability))).error().code();
  };
  EXPECT_EQ(read_with(""), Code::kPermissionDenied);
  EXPECT_EQ(read_with(rig.capability(chunk_id(2))), Code::kPermissionDenied);
  EXPECT_EQ(read_with(rig.capability(chunk_id(1), rpc::kOpWrite)), Code::kPermissionDenied);
}

TEST(SmallChunks, SomeBytesOfAnyChunkAreReadByOneCall) {
  ClusterRig rig(1);
  const auto bytes = chunk_bytes(3 * kMiB + 5000, 1);
  KINTSUGI_ASSERT_OK(rig.put(0, chunk_id(1), bytes));
  const auto part = [&](uint64_t offset, uint32_t length) -> Result<std::vector<std::byte>> {
    proto::ReadSmallChunkRequest request;
    request.set_stripe_id(1);
    request.set_index(chunk_id(1).index);
    request.set_capability(rig.capability(chunk_id(1)));
    request.set_offset(offset);
    request.set_length(length);
    proto::ReadSmallChunkResponse response;
    const Status read = rig.simulation.run(
        rig.client.call(Context{}, rig.endpoint(0), rpc::Method::kReadSmallChunk, request, response));
    if (!read.ok()) return read;
    const auto data = std::as_bytes(std::span(response.data()));
    EXPECT_EQ(crc32c(data), response.crc());
    return std::vector<std::byte>(data.begin(), data.end());
  };
  const auto expected = [&](uint64_t offset, uint64_t length) {
    const auto begin = bytes.begin() + static_cast<ptrdiff_t>(offset);
    return std::vector<std::byte>(begin, begin + static_cast<ptrdiff_t>(length));
  };
  const std::vector<std::pair<uint64_t, uint32_t>> parts{
      {0, 1}, {4096, 4096}, {kBlockBytes - 100, 200}, {kBlockBytes, kBlockBytes}, {3 * kMiB + 4000, 1000}};
  for (const char* from : {"disk", "memory"}) {
    for (const auto& [offset, length] : parts)
      EXPECT_EQ(*part(offset, length), expected(offset, length)) << offset << " from " << from;
  }
  ChunkCache& cache = rig.store(0).cache();
  EXPECT_GE(cache.counters().hits, parts.size());
  cache.erase(chunk_id(1));
  cache.admit({chunk_id(1), 1, bytes.size()}, 1, chunk_bytes(kBlockBytes, 2));
  EXPECT_EQ(*part(kBlockBytes + 7, 100), expected(kBlockBytes + 7, 100)) << "the block went bad in memory";
  EXPECT_EQ(part(3 * kMiB + 4001, 1000).error().code(), Code::kInvalidArgument);
  EXPECT_EQ(part(UINT64_MAX, 1000).error().code(), Code::kInvalidArgument);
  EXPECT_EQ(part(0, kBlockBytes + 1).error().code(), Code::kInvalidArgument);
  EXPECT_EQ(part(0, 0).error().code(), Code::kInvalidArgument) << "the whole is more than a block";
}

TEST(SmallChunks, ManyAtOnceShareSyncs) {
  ClusterRig rig(1);
  KINTSUGI_ASSERT_OK(put_small(rig, chunk_id(1), chunk_bytes(4096, 1)));
  const auto one = [](ClusterRig& rig, uint64_t stripe, size_t& done) -> asio::awaitable<void> {
    KINTSUGI_EXPECT_OK(
        co_await write_small(rig, write_request(rig, chunk_id(stripe), chunk_bytes(4096, stripe))));
    ++done;
  };
  size_t done = 0;
  const uint64_t syncs_before = rig.servers[0].node->disk().counters().syncs;
  for (uint64_t stripe = 100; stripe < 300; ++stripe)
    asio::co_spawn(rig.simulation.executor(), one(rig, stripe, done), asio::detached);
  EXPECT_TRUE(rig.simulation.run_until([&] { return done == 200; }));
  EXPECT_LT(rig.servers[0].node->disk().counters().syncs - syncs_before, 10u);
  EXPECT_EQ(rig.store(0).chunks(), 201u);
}

}  // namespace
}  // namespace kintsugi::chunkserver
