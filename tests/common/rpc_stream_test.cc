#include "tests/common/rpc_rig.h"

namespace kintsugi::rpc {
namespace {

constexpr size_t kMebibyte = 1 << 20;

asio::awaitable<Result<std::unique_ptr<Stream>>> open(Rig& rig, Method method, Context context = {}) {
  proto::Empty request;
  co_return co_await rig.client.open_stream(context, rig.at, method, request);
}

/// Makes a whole kReadChunk call and gives the connection back.
asio::awaitable<Status> download(Rig& rig, std::vector<std::byte>& into) {
  KINTSUGI_CO_ASSIGN(auto stream, co_await open(rig, Method::kReadChunk));
  proto::ErrorDetail header;
  while (true) {
    KINTSUGI_CO_ASSIGN(Stream::Received received, co_await stream->receive(header));
    if (received.end) break;
    size_t at = into.size();
    into.resize(at + received.payload_bytes);
    KINTSUGI_CO_TRY(co_await stream->receive_payload(std::span(into).subspan(at)));
  }
  if (header.message() != "done") co_return Status{Code::kCorrupt, "no end: " + header.message()};
  KINTSUGI_CO_TRY(co_await stream->send_end(header));
  rig.client.finish(rig.at, std::move(stream));
  co_return Status{};
}

/// Makes a whole kWriteChunk call and gives the connection back.
asio::awaitable<Status> upload(Rig& rig, std::span<const std::byte> bytes, size_t frame_bytes,
                               size_t pieces) {
  KINTSUGI_CO_ASSIGN(auto stream, co_await open(rig, Method::kWriteChunk));
  proto::ErrorDetail header = text("data");
  for (size_t at = 0; at < bytes.size(); at += frame_bytes) {
    std::span<const std::byte> frame = bytes.subspan(at, std::min(frame_bytes, bytes.size() - at));
    std::vector<asio::const_buffer> payload;
    for (size_t i = 0; i < pieces; ++i) {
      size_t begin = frame.size() * i / pieces, end = frame.size() * (i + 1) / pieces;
      payload.emplace_back(frame.data() + begin, end - begin);
    }
    KINTSUGI_CO_TRY(co_await stream->send(header, payload));
  }
  KINTSUGI_CO_TRY(co_await stream->send_end(header));
  KINTSUGI_CO_ASSIGN(Stream::Received done, co_await stream->receive(header));
  if (!done.end || header.message() != std::to_string(bytes.size()))
    co_return Status{Code::kCorrupt, header.message()};
  rig.client.finish(rig.at, std::move(stream));
  co_return Status{};
}

TEST(RpcStream, DownloadsSixtyFourMebibytesUnchanged) {
  run_on_loopback([](Rig& rig) -> asio::awaitable<void> {
    rig.frames = 64;
    std::vector<std::byte> got;
    CO_ASSERT_OK(co_await download(rig, got));
    CO_ASSERT_TRUE(got.size() == 64 * kMebibyte);
    for (size_t i = 0; i < rig.frames; ++i) {
      std::vector<std::byte> expected = pattern_bytes(kMebibyte, i);
      EXPECT_EQ(std::memcmp(got.data() + i * kMebibyte, expected.data(), kMebibyte), 0) << "frame " << i;
    }
  });
}

TEST(RpcStream, UploadsSixtyFourMebibytesUnchanged) {
  run_on_loopback([](Rig& rig) -> asio::awaitable<void> {
    std::vector<std::byte> bytes = pattern_bytes(64 * kMebibyte, 5);
    CO_ASSERT_OK(co_await upload(rig, bytes, kMebibyte, 1));
    EXPECT_TRUE(rig.uploaded == bytes);
  });
}

TEST(RpcStream, CarriesFramesOfAllSizesFromAnyNumberOfBuffers) {
  run_on_loopback([](Rig& rig) -> asio::awaitable<void> {
    std::vector<std::byte> bytes = pattern_bytes(kMaxPayloadBytes + 12345, 6);
    struct Shape {
      size_t frame_bytes, pieces;
    };
    std::vector<Shape> shapes = {
        {kMaxPayloadBytes, 1}, {kMaxPayloadBytes, 500}, {70'001, 64}, {4096, 3}, {1000, 1}};
    for (auto [frame_bytes, pieces] : shapes) {
      CO_ASSERT_OK(co_await upload(rig, bytes, frame_bytes, pieces));
      EXPECT_TRUE(rig.uploaded == bytes) << frame_bytes << " in " << pieces;
    }
  });
}

TEST(RpcStream, RefusesAFrameAboveTheLimitAndGoesOn) {
  run_on_loopback([](Rig& rig) -> asio::awaitable<void> {
    auto stream = co_await open(rig, Method::kWriteChunk);
    CO_ASSERT_TRUE(stream);
    std::vector<std::byte> bytes(kMaxPayloadBytes + 1);
    asio::const_buffer payload(bytes.data(), bytes.size());
    proto::ErrorDetail header = text("data");
    Status refused = co_await (*stream)->send(header, std::span(&payload, 1));
    EXPECT_EQ(refused.code(), Code::kLimitExceeded);
    CO_ASSERT_OK(co_await (*stream)->send_end(header));
    CO_ASSERT_TRUE(co_await (*stream)->receive(header));
    EXPECT_EQ(header.message(), "0");
  });
}

TEST(RpcStream, ReusesItsConnectionAfterACleanEnd) {
  run_simulated([](Rig& rig, simulation::Simulation& simulation) -> asio::awaitable<void> {
    std::vector<std::byte> bytes = pattern_bytes(300'000, 7);
    for (int i = 0; i < 10; ++i) {
      std::vector<std::byte> got;
      CO_ASSERT_OK(co_await download(rig, got));
      CO_ASSERT_OK(co_await upload(rig, bytes, 100'000, 2));
      EXPECT_EQ(simulation.network().connections("10.0.0.2"), 1u);
    }
    EXPECT_EQ(rig.streams_served, 20u);
  });
}

TEST(RpcStream, ClosesIdleConnectionsAfterTheirLimit) {
  ClientLimits limits;
  limits.idle_limit = 10s;
  run_simulated(
      [](Rig& rig, simulation::Simulation& simulation) -> asio::awaitable<void> {
        std::vector<std::byte> got;
        CO_ASSERT_OK(co_await download(rig, got));
        CO_ASSERT_OK(co_await rig.ping_is_echoed());
        runtime::TaskGroup group(rig.client_runtime);
        (void)co_await group.sleep_for(5s);
        EXPECT_EQ(simulation.network().connections("10.0.0.2"), 2u);
        (void)co_await group.sleep_for(20s);
        EXPECT_EQ(simulation.network().connections("10.0.0.2"), 0u);
        CO_ASSERT_OK(co_await download(rig, got));
        CO_ASSERT_OK(co_await rig.ping_is_echoed());
      },
      {}, limits);
}

TEST(RpcStream, APooledConnectionThatThePeerClosedFailsNoCall) {
  run_simulated([](Rig& rig, simulation::Simulation& simulation) -> asio::awaitable<void> {
    runtime::TaskGroup group(rig.client_runtime);
    std::vector<std::byte> got;
    CO_ASSERT_OK(co_await download(rig, got));
    simulation.network().drop_connections("10.0.0.1");
    CO_ASSERT_OK(co_await download(rig, got));  // at once
    simulation.network().drop_connections("10.0.0.1");
    (void)co_await group.sleep_for(1s);
    CO_ASSERT_OK(co_await download(rig, got));
  });
}

TEST(RpcStream, APooledConnectionOfARestartedServerFailsNoCall) {
  run_simulated([](Rig& rig, simulation::Simulation&) -> asio::awaitable<void> {
    std::vector<std::byte> got;
    CO_ASSERT_OK(co_await download(rig, got));
    CO_ASSERT_OK(co_await rig.ping_is_echoed());
    co_await rig.server.stop();
    Rig restarted(rig.server_runtime, rig.client_runtime);
    restarted.start(rig.at.host, rig.at.port);
    runtime::TaskGroup group(rig.client_runtime);
    (void)co_await group.sleep_for(
        10ms);  // the end of the connections has arrived; a send would still be accepted
    CO_ASSERT_OK(co_await download(rig, got));
    CO_ASSERT_OK(co_await rig.ping_is_echoed());
    EXPECT_EQ(restarted.streams_served, 1u);
    co_await restarted.stop();
  });
}

TEST(RpcStream, AnErrorOfTheHandlerReachesAClientThatIsStillSending) {
  run_on_loopback([](Rig& rig) -> asio::awaitable<void> {
    auto stream = co_await open(rig, Method::kPartialSum);
    CO_ASSERT_TRUE(stream);
    std::vector<std::byte> bytes(kMebibyte);
    asio::const_buffer payload(bytes.data(), bytes.size());
    proto::ErrorDetail header = text("data");
    for (int i = 0; i < 64; ++i)
      CO_ASSERT_OK(co_await (*stream)->send(header, std::span(&payload, 1)));
    CO_ASSERT_OK(co_await (*stream)->send_end(header));
    auto answer = co_await (*stream)->receive(header);
    CO_ASSERT_TRUE(!answer);
    EXPECT_EQ(answer.error().code(), Code::kNoSpace);
    EXPECT_NE(answer.error().message().find("disk full"), std::string::npos);
    rig.client.finish(rig.at, std::move(*stream));
    CO_ASSERT_OK(co_await rig.ping_is_echoed());
  });
}

TEST(RpcStream, RefusesAnUnknownMethod) {
  run_on_loopback([](Rig& rig) -> asio::awaitable<void> {
    auto stream = co_await open(rig, Method::kPing);
    CO_ASSERT_TRUE(stream);
    proto::ErrorDetail header;
    auto answer = co_await (*stream)->receive(header);
    CO_ASSERT_TRUE(!answer);
    EXPECT_EQ(answer.error().code(), Code::kInvalidArgument) << answer.error();
  });
}

TEST(RpcStream, APeerThatClosesMidStreamIsUnavailableToTheOther) {
  LogCapture log;
  run_simulated([](Rig& rig, simulation::Simulation& simulation) -> asio::awaitable<void> {
    rig.frames = 64;
    auto stream = co_await open(rig, Method::kReadChunk);
    CO_ASSERT_TRUE(stream);
    proto::ErrorDetail header;
    CO_ASSERT_TRUE(co_await (*stream)->receive(header));
    simulation.network().drop_connections("10.0.0.1");
    std::vector<std::byte> into(kMebibyte);
    Status broken = co_await (*stream)->receive_payload(into);
    EXPECT_EQ(broken.code(), Code::kUnavailable) << broken;
    EXPECT_FALSE((*stream)->is_open());
    auto later = co_await (*stream)->receive(header);
    EXPECT_FALSE(later);
  });
}

TEST(RpcStream, DestroyingAStreamCancelsItsHandler) {
  run_simulated([](Rig& rig, simulation::Simulation& simulation) -> asio::awaitable<void> {
    rig.frames = 1'000'000;
    {
      auto stream = co_await open(rig, Method::kReadChunk);
      CO_ASSERT_TRUE(stream);
      proto::ErrorDetail header;
      CO_ASSERT_TRUE(co_await (*stream)->receive(header));
    }
    runtime::TaskGroup group(rig.client_runtime);
    (void)co_await group.sleep_for(5s);
    EXPECT_EQ(simulation.network().connections("10.0.0.2"), 0u);
  });
}

TEST(RpcStream, AStreamWithoutProgressIsClosedAtTheIdleLimit) {
  run_simulated([](Rig& rig, simulation::Simulation& simulation) -> asio::awaitable<void> {
    auto stream = co_await open(rig, Method::kWriteChunk);
    CO_ASSERT_TRUE(stream);
    TimePoint begin = simulation.now();
    proto::ErrorDetail header;
    auto nothing = co_await (*stream)->receive(header);  // the server waits for frames, too
    CO_ASSERT_TRUE(!nothing);
    EXPECT_TRUE(nothing.error().code() == Code::kDeadlineExceeded ||
                nothing.error().code() == Code::kUnavailable)
        << nothing.error();
    EXPECT_GE(simulation.now() - begin, 29s);
    EXPECT_LE(simulation.now() - begin, 61s);
  });
}

TEST(RpcStream, AStreamEndsAtTheDeadlineOfItsCall) {
  run_simulated([](Rig& rig, simulation::Simulation& simulation) -> asio::awaitable<void> {
    TimePoint begin = simulation.now();
    Context context;
    context.deadline = begin + 2s;
    auto stream = co_await open(rig, Method::kWriteChunk, context);
    CO_ASSERT_TRUE(stream);
    proto::ErrorDetail header;
    auto nothing = co_await (*stream)->receive(header);
    CO_ASSERT_TRUE(!nothing);
    EXPECT_EQ(nothing.error().code(), Code::kDeadlineExceeded) << nothing.error();
    EXPECT_EQ(simulation.now() - begin, 2s);
  });
}

TEST(RpcStream, AStoppingServerBreaksItsStreams) {
  run_simulated([](Rig& rig, simulation::Simulation&) -> asio::awaitable<void> {
    auto stream = co_await open(rig, Method::kWriteChunk);
    CO_ASSERT_TRUE(stream);
    proto::ErrorDetail header = text("data");
    CO_ASSERT_OK(co_await (*stream)->send(header));
    co_await rig.server.stop();
    auto answer = co_await (*stream)->receive(header);
    CO_ASSERT_TRUE(!answer);
    EXPECT_EQ(answer.error().code(), Code::kUnavailable) << answer.error();
  });
}

TEST(RpcStream, AStoppingClientBreaksItsStreams) {
  run_simulated([](Rig& rig, simulation::Simulation&) -> asio::awaitable<void> {
    auto stream = co_await open(rig, Method::kWriteChunk);
    CO_ASSERT_TRUE(stream);
    co_await rig.client.stop();
    proto::ErrorDetail header = text("data");
    Status sent = co_await (*stream)->send(header);
    EXPECT_EQ(sent.code(), Code::kCancelled) << sent;
  });
}

}  // namespace
}  // namespace kintsugi::rpc
