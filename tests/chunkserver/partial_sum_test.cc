// The PartialSum RPC as a caller sees it, and as a child that misbehaves may answer it.
#include "common/proto/token.pb.h"
#include "common/rpc/token.h"
#include "partial_sum/sum_matrix.h"
#include "tests/chunkserver/stripe_rig.h"
#include "tests/expect_ok.h"

namespace kintsugi::chunkserver {
namespace {

struct Sums {
  std::vector<std::vector<std::byte>> sums;
  proto::PartialSumDone done;
};

asio::awaitable<Result<Sums>> ask_by(rpc::Client& client, runtime::Endpoint to,
                                     proto::PartialSumRequest request) {
  const uint32_t count = static_cast<uint32_t>(request.node().coefficients().size());
  auto stream = co_await client.open_stream(Context{}, to, rpc::Method::kPartialSum, request);
  if (!stream) co_return stream.error();
  Sums result;
  result.sums.resize(count);
  while (true) {
    proto::PartialSumData data;
    auto frame = co_await (*stream)->receive(data, result.done);
    if (!frame) co_return frame.error();
    if (frame->end) break;
    EXPECT_LE(frame->payload_bytes, kMiB);
    EXPECT_EQ(data.offset(), request.offset() + result.sums[0].size());
    std::vector<std::byte> payload(frame->payload_bytes);
    KINTSUGI_CO_TRY(co_await (*stream)->receive_payload(payload));
    if (!payload.empty()) {
      EXPECT_EQ(crc32c(payload), data.crc());
    }
    const size_t part = payload.size() / count;
    for (uint32_t i = 0; i < count; ++i) {
      result.sums[i].insert(result.sums[i].end(), payload.begin() + i * part,
                            payload.begin() + (i + 1) * part);
      result.sums[i].resize(result.sums[i].size() + data.zero_bytes());
    }
  }
  proto::Empty end;
  KINTSUGI_CO_TRY(co_await (*stream)->send_end(end));
  client.finish(to, std::move(*stream));
  co_return result;
}

asio::awaitable<Result<Sums>> ask(ClusterRig& rig, runtime::Endpoint to, proto::PartialSumRequest request) {
  return ask_by(rig.client, std::move(to), std::move(request));
}

proto::PartialSumRequest request_for(StripeRig& rig, std::vector<uint32_t> lost,
                                     std::vector<uint32_t> helpers, uint64_t offset, uint64_t length,
                                     uint64_t slice) {
  proto::PartialSumRequest request;
  request.set_stripe_id(StripeRig::kStripe);
  request.set_offset(offset);
  request.set_length(length);
  request.set_slice_bytes(slice);
  *request.mutable_node() = rig.tree(lost, helpers, TestShape::kChain).at(0);
  return request;
}

TEST(PartialSum, GivesSeveralLostChunksOfARangeAtOnce) {
  StripeRig rig({3 * kMiB, 3 * kMiB, 3 * kMiB, 2 * kMiB, kMiB, 500'000});
  for (uint64_t slice : {uint64_t{64 * 1024}, uint64_t{kMiB}, uint64_t{64 * kMiB}}) {
    const uint64_t offset = 5 * kBlockBytes, length = 2 * kMiB + 777;
    auto request = request_for(rig, {1, 4, 7}, {0, 2, 3, 5, 6, 8}, offset, length, slice);
    auto sums = rig.simulation.run(ask(rig, rig.endpoint(0), request));
    ASSERT_TRUE(sums) << sums.error();
    for (uint32_t i = 0; i < 3; ++i) {
      std::vector<std::byte> expected = rig.chunks[std::array{1, 4, 7}[i]];
      expected.resize(3 * kMiB);
      expected = {expected.begin() + offset, expected.begin() + offset + length};
      EXPECT_EQ(sums->sums[i], expected) << "sum " << i;
    }
    EXPECT_EQ(sums->done.servers_size(), 6);
  }
  rig.expect_all_quiet();
}

TEST(PartialSum, WhatIsBeyondAllChunksIsOnlyAnnouncedAsZeros) {
  StripeRig rig({3 * kMiB, 100, 100, 100, 100, 100});
  proto::PartialSumRequest request = request_for(rig, {0}, {1, 2, 3, 4, 5, 6}, 0, 3 * kMiB, kMiB);
  proto::RepairNode node = request.node();
  node.clear_children();
  *request.mutable_node() = node;
  auto sums = rig.simulation.run(ask(rig, rig.endpoint(1), request));
  ASSERT_TRUE(sums) << sums.error();
  EXPECT_EQ(sums->sums[0].size(), 3 * kMiB);
  EXPECT_EQ(sums->done.servers(0).timing().bytes_out(), 100u);
}

TEST(PartialSum, AChildMaySendMoreSumsThanItsParentKeeps) {
  using namespace std::string_view_literals;
  EXPECT_FALSE(partial_sum::SumMatrix("\1\0"sv, 1, 2).is_identity());
  EXPECT_TRUE(partial_sum::SumMatrix("\1\0"sv, 2, 1).is_identity());
  StripeRig rig({kMiB, kMiB, kMiB, kMiB, kMiB, kMiB});
  auto request = request_for(rig, {0}, {1, 2, 3, 4, 5, 6}, 0, kMiB, 64 * 1024);
  proto::RepairNode* leaf = request.mutable_node();
  while (!leaf->children().empty())
    leaf = leaf->mutable_children(0);
  leaf->set_coefficients(leaf->coefficients() + '\7');
  leaf->set_sums(2);
  leaf->set_combine(std::string("\1\0"sv));
  auto sums = rig.simulation.run(ask(rig, rig.endpoint(1), request));
  ASSERT_TRUE(sums) << sums.error();
  EXPECT_EQ(sums->sums[0], rig.chunks[0]);
}

TEST(PartialSum, IsPacedForARepairButNotForAUsersRead) {
  StripeRig rig({kMiB, kMiB, kMiB, kMiB, kMiB, kMiB});
  rig.stop_server(1);
  Options options;
  options.listen = rig.endpoint(1);
  options.metaserver = {"meta", 7000};
  options.disks = {"/disk"};
  options.repair_bytes_per_second = 1'000'000;
  rig.servers[1].runtime = std::make_unique<runtime::Runtime>(rig.servers[1].node->runtime());
  rig.servers[1].server = std::make_unique<ChunkServer>(*rig.servers[1].runtime, options, rig.secret);
  KINTSUGI_ASSERT_OK(rig.simulation.run(rig.servers[1].server->start()));
  auto request = request_for(rig, {0}, {1, 2, 3, 4, 5, 6}, 0, kMiB, kMiB);
  const auto took = [&](bool user) {
    request.set_user(user);
    const TimePoint began = rig.simulation.now();
    EXPECT_TRUE(rig.simulation.run(ask(rig, rig.endpoint(1), request)));
    return rig.simulation.now() - began;
  };
  EXPECT_GT(took(false), 1s);
  EXPECT_LT(took(true), 500ms);
}

TEST(PartialSum, AUsersReadLeavesTheChunksOfItsHelpersInTheirCaches) {
  StripeRig rig({kMiB, kMiB, kMiB, kMiB, kMiB, kMiB});
  auto request = request_for(rig, {0}, {1, 2, 3, 4, 5, 6}, 0, kMiB, kMiB);
  const auto read_from_disks = [&](bool user) {
    request.set_user(user);
    uint64_t bytes = 0;
    for (uint32_t helper = 1; helper <= 6; ++helper)
      bytes -= rig.store(helper).disk_bytes_read();
    EXPECT_TRUE(rig.simulation.run(ask(rig, rig.endpoint(1), request)));
    for (uint32_t helper = 1; helper <= 6; ++helper)
      bytes += rig.store(helper).disk_bytes_read();
    return bytes;
  };
  EXPECT_GE(read_from_disks(false), 6 * kMiB);
  EXPECT_GE(read_from_disks(true), 6 * kMiB) << "the repair left nothing";
  EXPECT_EQ(read_from_disks(true), 0u);
  EXPECT_GT(rig.store(3).usage().heat(rig.chunk(3)), 0);
}

TEST(PartialSum, RefusesBadRequestsClearly) {
  StripeRig rig({kMiB, kMiB, kMiB, kMiB, kMiB, kMiB});
  const auto good = request_for(rig, {0}, {1, 2, 3, 4, 5, 6}, 0, kMiB, kMiB);
  auto code_of = [&](const proto::PartialSumRequest& request) {
    auto sums = rig.simulation.run(ask(rig, rig.endpoint(1), request));
    return sums ? Code::kOk : sums.error().code();
  };
  EXPECT_EQ(code_of(good), Code::kOk);
  auto bad = good;
  bad.set_offset(100);
  EXPECT_EQ(code_of(bad), Code::kInvalidArgument);
  bad = good;
  bad.set_length(UINT64_MAX);
  EXPECT_EQ(code_of(bad), Code::kInvalidArgument);
  bad = good;
  bad.set_slice_bytes(0);
  EXPECT_EQ(code_of(bad), Code::kInvalidArgument);
  bad = good;
  bad.mutable_node()->set_coefficients("");
  EXPECT_EQ(code_of(bad), Code::kInvalidArgument);
  bad = good;
  bad.mutable_node()->set_coefficients(std::string(129, 'x'));
  EXPECT_EQ(code_of(bad), Code::kInvalidArgument);
  bad = good;
  bad.mutable_node()->mutable_children(0)->set_coefficients("xy");
  EXPECT_EQ(code_of(bad), Code::kInvalidArgument);
  bad = good;
  bad.mutable_node()->mutable_children(0)->set_address("nowhere");
  EXPECT_EQ(code_of(bad), Code::kInvalidArgument);
  bad = good;
  bad.mutable_node()->mutable_children(0)->set_index(1);
  EXPECT_EQ(code_of(bad), Code::kInvalidArgument);
  bad = good;
  bad.mutable_node()->set_chunk_length(kMiB - 1);
  EXPECT_EQ(code_of(bad), Code::kCorrupt);
  bad = good;
  for (uint32_t i = 0; i < 40; ++i) {
    proto::RepairNode leaf = good.node();
    leaf.clear_children();
    leaf.set_index(100 + i);
    *bad.mutable_node()->add_children() = leaf;
  }
  EXPECT_EQ(code_of(bad), Code::kInvalidArgument);
  rig.expect_all_quiet();
}

TEST(PartialSum, NeedsACapabilityForTheHelpersChunk) {
  StripeRig rig({kMiB, kMiB, kMiB, kMiB, kMiB, kMiB});
  auto request = request_for(rig, {0}, {1, 2, 3, 4, 5, 6}, 0, kMiB, kMiB);
  const std::vector<std::string> wrong{"", "x", rig.capability(rig.chunk(2)),
                                       rig.capability(rig.chunk(1), rpc::kOpWrite)};
  for (const std::string& capability : wrong) {
    request.mutable_node()->set_capability(capability);
    auto sums = rig.simulation.run(ask(rig, rig.endpoint(1), request));
    EXPECT_EQ(sums.error().code(), Code::kPermissionDenied);
  }
  // A bad one deep in the tree fails the tree.
  request = request_for(rig, {0}, {1, 2, 3, 4, 5, 6}, 0, kMiB, kMiB);
  request.mutable_node()->mutable_children(0)->mutable_children(0)->set_capability("");
  auto sums = rig.simulation.run(ask(rig, rig.endpoint(1), request));
  EXPECT_EQ(sums.error().code(), Code::kPermissionDenied);
  // The right to read is enough.
  request = request_for(rig, {0}, {1, 2, 3, 4, 5, 6}, 0, kMiB, kMiB);
  request.mutable_node()->set_capability(rig.capability(rig.chunk(1), rpc::kOpRead));
  EXPECT_TRUE(rig.simulation.run(ask(rig, rig.endpoint(1), request)));
}

TEST(PartialSum, IsThatOfOneServerForATokenWhoseHolderHasNobodyDialled) {
  StripeRig rig({kMiB, kMiB, kMiB, kMiB, kMiB, kMiB});
  proto::TokenClaims claims;
  claims.set_id(1);
  claims.set_name("reader");
  claims.set_role(proto::TokenClaims::READ);
  claims.set_issued_ns(rig.client_runtime.clock.wall_now().time_since_epoch().count());
  rpc::Client reader(rig.client_runtime, rpc::token_key(rig.secret, claims.SerializeAsString()));
  rig.servers[1].server->server().refuse_tokens({});
  auto request = request_for(rig, {0}, {1, 2, 3, 4, 5, 6}, 0, kMiB, kMiB);
  const auto of_tree = rig.simulation.run(ask_by(reader, rig.endpoint(1), request));
  ASSERT_FALSE(of_tree);
  EXPECT_EQ(of_tree.error().code(), Code::kPermissionDenied);
  request.mutable_node()->clear_children();
  const auto of_one = rig.simulation.run(ask_by(reader, rig.endpoint(1), request));
  EXPECT_TRUE(of_one) << of_one.error();
  rig.simulation.run(reader.stop());
}

/// A child that answers PartialSum with a script.
class FakeChild {
 public:
  using Script = std::function<asio::awaitable<Status>(rpc::Stream&)>;
  FakeChild(ClusterRig& rig, Script script)
      : rig_(rig),
        node_(rig.simulation, "fake"),
        runtime_(node_.runtime()),
        server_(runtime_, rig.secret, nullptr) {
    server_.handle_stream(rpc::Method::kPartialSum, [script](Context, const proto::PartialSumRequest&,
                                                             rpc::Stream& stream) { return script(stream); });
    Status started = server_.start({"fake", 7000});
    KINTSUGI_ASSERT(started.ok());
  }
  ~FakeChild() { rig_.simulation.run(server_.stop()); }

 private:
  ClusterRig& rig_;
  simulation::SimNode node_;
  runtime::Runtime runtime_;
  rpc::Server server_;
};

asio::awaitable<Status> send_sum(rpc::Stream& stream, uint64_t offset, size_t bytes, uint64_t zeros,
                                 uint32_t crc_error) {
  std::vector<std::byte> payload(bytes);
  proto::PartialSumData data;
  data.set_offset(offset);
  data.set_crc(crc32c(payload) ^ crc_error);
  data.set_zero_bytes(zeros);
  const asio::const_buffer buffer(payload.data(), payload.size());
  co_return co_await stream.send(data, std::span(&buffer, bytes == 0 ? 0 : 1));
}

Status outcome_with(FakeChild::Script script) {
  StripeRig rig({kMiB, kMiB, kMiB, kMiB, kMiB, kMiB});
  FakeChild fake(rig, std::move(script));
  auto request = request_for(rig, {0}, {1, 2, 3, 4, 5, 6}, 0, kMiB, 256 * 1024);
  request.mutable_node()->mutable_children(0)->clear_children();
  request.mutable_node()->mutable_children(0)->set_address("fake:7000");
  auto sums = rig.simulation.run(ask(rig, rig.endpoint(1), request));
  rig.expect_all_quiet();
  return sums ? Status{} : sums.error();
}

TEST(PartialSum, FailsOnFramesThatDoNotFit) {
  auto data = [](uint64_t offset, size_t bytes, uint64_t zeros, uint32_t crc_error) -> FakeChild::Script {
    return [=](rpc::Stream& stream) { return send_sum(stream, offset, bytes, zeros, crc_error); };
  };
  EXPECT_EQ(outcome_with(data(4096, 1000, 0, 0)).code(), Code::kInvalidArgument);     // a gap
  EXPECT_EQ(outcome_with(data(0, 300 * 1024, 0, 0)).code(), Code::kInvalidArgument);  // beyond the slice
  EXPECT_EQ(outcome_with(data(0, 0, 300 * 1024, 0)).code(),
            Code::kInvalidArgument);                                               // zeros beyond the slice
  EXPECT_EQ(outcome_with(data(0, 1000, 1000, 0)).code(), Code::kInvalidArgument);  // both
  EXPECT_EQ(outcome_with(data(0, 1000, 0, 1)).code(), Code::kCorrupt);             // flipped on the way
  EXPECT_EQ(outcome_with([](rpc::Stream& stream) -> asio::awaitable<Status> {      // too early an end
              proto::PartialSumDone done;
              co_return co_await stream.send_end(done);
            })
                .code(),
            Code::kInvalidArgument);
  EXPECT_FALSE(outcome_with([](rpc::Stream& stream) -> asio::awaitable<Status> {
                 stream.close();
                 co_return Status{};
               }).ok());
}

asio::awaitable<Status> open_many(ClusterRig& rig, const proto::PartialSumRequest& request, size_t count,
                                  std::vector<std::unique_ptr<rpc::Stream>>& streams) {
  for (size_t i = 0; i < count; ++i) {
    auto stream =
        co_await rig.client.open_stream(Context{}, rig.endpoint(1), rpc::Method::kPartialSum, request);
    if (!stream) co_return stream.error();
    streams.push_back(std::move(*stream));
  }
  co_return Status{};
}

TEST(PartialSum, IsRefusedWhileThoseThatRunMayNeedAllMemory) {
  StripeRig rig({kMiB, kMiB, kMiB, kMiB, kMiB, kMiB});
  FakeChild fake(rig, [](rpc::Stream& stream) -> asio::awaitable<Status> {
    proto::Empty nothing;
    auto closed = co_await stream.receive(nothing);
    co_return closed ? Status{} : closed.error();
  });
  const auto good = request_for(rig, {0}, {1, 2, 3, 4, 5, 6}, 0, kMiB, 64 * 1024);
  auto large = request_for(rig, {0}, {1, 2, 3, 4, 5, 6}, 0, partial_sum::kMaxSumBytes, 1ull << 40);
  large.mutable_node()->mutable_children(0)->clear_children();
  large.mutable_node()->mutable_children(0)->set_address("fake:7000");
  std::vector<std::unique_ptr<rpc::Stream>> streams;
  const size_t most = Options{}.tree_memory_bytes / partial_sum::kMaxSumBytes;
  KINTSUGI_ASSERT_OK(rig.simulation.run(open_many(rig, large, most, streams)));
  rig.simulation.run_for(100ms);
  auto refused = rig.simulation.run(ask(rig, rig.endpoint(1), good));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Code::kLimitExceeded) << refused.error();
  streams.clear();
  rig.simulation.run_for(100ms);
  EXPECT_TRUE(rig.simulation.run(ask(rig, rig.endpoint(1), good)));
  rig.expect_all_quiet();
}

TEST(PartialSum, TakesACorrectSumInOddPieces) {
  FakeChild::Script script = [](rpc::Stream& stream) -> asio::awaitable<Status> {
    uint64_t at = 0;
    while (at < kMiB) {
      uint64_t left = 256 * 1024 - at % (256 * 1024);
      uint64_t bytes = std::min<uint64_t>(left, 77'777);
      KINTSUGI_CO_TRY(co_await send_sum(stream, 0, 0, 0, 0));  // only shows that the child lives
      if (at % 2 == 0) {
        KINTSUGI_CO_TRY(co_await send_sum(stream, at, bytes, 0, 0));
      } else {
        KINTSUGI_CO_TRY(co_await send_sum(stream, at, 0, bytes, 0));
      }
      at += bytes;
    }
    proto::PartialSumDone done;
    co_return co_await stream.send_end(done);
  };
  Status outcome = outcome_with(script);
  KINTSUGI_EXPECT_OK(outcome);
}

}  // namespace
}  // namespace kintsugi::chunkserver
