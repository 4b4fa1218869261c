// Proven connections that then send frames which no client of ours would send.
#include "common/rpc/handshake.h"
#include "tests/common/frame_field.h"
#include "tests/common/rpc_rig.h"

namespace kintsugi::rpc {
namespace {

using Bytes = std::vector<std::byte>;

Bytes frame(FrameHeader header, std::string_view message, size_t payload_bytes = 0) {
  header.payload_bytes = static_cast<uint32_t>(payload_bytes);
  auto fixed = encode_frame_header(header, std::as_bytes(std::span(message)));
  Bytes out(fixed.begin(), fixed.end());
  for (char c : message)
    out.push_back(static_cast<std::byte>(c));
  out.resize(out.size() + payload_bytes);
  return out;
}

Bytes ping_frame(uint64_t id = 1) {
  return frame({.method = Method::kPing, .flags = kFlagRequest, .request_id = id},
               text("hello").SerializeAsString());
}

/// A proven connection without a Client around it.
struct RawPeer {
  explicit RawPeer(Rig& rig) : rig(rig), registry(std::make_shared<ConnectionRegistry>()) {}

  asio::awaitable<Status> connect() {
    TimePoint deadline = rig.client_runtime.clock.now() + 5s;
    auto dialled = co_await rig.client_runtime.network.dial(rig.at, deadline);
    if (!dialled) co_return dialled.error();
    connection =
        std::make_shared<BufferedConnection>(std::move(*dialled), rig.client_runtime.executor, registry);
    co_return co_await prove_as_client(rig.client_runtime, test_secret(), connection, deadline);
  }

  asio::awaitable<Status> send(const Bytes& bytes) {
    asio::const_buffer buffer(bytes.data(), bytes.size());
    co_return co_await connection->write(std::span(&buffer, 1));
  }

  /// Reads frames until the server closes, or there are `enough`.
  asio::awaitable<size_t> frames_until_closed(size_t enough) {
    size_t frames = 0;
    while (frames < enough) {
      Result<FrameView> frame = co_await connection->next_frame();
      if (!frame) co_return frames;
      ++frames;
      connection->consume(frame->bytes());
    }
    co_return frames;
  }

  Rig& rig;
  std::shared_ptr<ConnectionRegistry> registry;
  std::shared_ptr<BufferedConnection> connection;
};

/// Sends `bytes`, expects that the server closes that connection, says why once, and serves others.
void expect_closed(Bytes bytes, std::string_view reason, bool hang_up = false) {
  LogCapture log;
  run_on_loopback([&](Rig& rig) -> asio::awaitable<void> {
    CO_ASSERT_OK(co_await rig.ping_is_echoed());
    RawPeer peer(rig);
    CO_ASSERT_OK(co_await peer.connect());
    CO_ASSERT_OK(co_await peer.send(bytes));
    if (hang_up) {
      peer.connection->close();
      for (int i = 0; i < 100 && log.count(reason) == 0; ++i)
        CO_ASSERT_OK(co_await rig.ping_is_echoed());
    } else {
      EXPECT_EQ(co_await peer.frames_until_closed(1), 0u);
    }
    CO_ASSERT_OK(co_await rig.ping_is_echoed());
  });
  EXPECT_EQ(log.count(reason), 1u) << ::testing::PrintToString(log.lines());
  EXPECT_EQ(log.count("closing connection"), 1u);
}

TEST(RpcMalformed, GarbageAfterTheHandshakeClosesTheConnection) {
  expect_closed(Bytes(200, std::byte{'G'}), "bad magic");
}

TEST(RpcMalformed, ABrokenChecksumClosesTheConnection) {
  Bytes bytes = ping_frame();
  bytes.back() ^= std::byte{1};
  expect_closed(bytes, "frame message checksum mismatch");
}

TEST(RpcMalformed, ADamagedLengthIsNoticedBeforeSoManyBytesHaveCome) {
  Bytes bytes = ping_frame();
  bytes[13] ^= std::byte{4};  // 1 KiB more
  expect_closed(bytes, "frame header checksum mismatch");
}

TEST(RpcMalformed, AnOversizedHeaderIsRefusedBeforeItComes) {
  Bytes bytes = ping_frame();
  overwrite<uint32_t>(bytes, 12, kMaxHeaderBytes + 1);
  expect_closed(bytes, "frame header of 1048577 bytes, limit 1048576");
}

TEST(RpcMalformed, AnOversizedPayloadIsRefused) {
  Bytes bytes = ping_frame();
  overwrite<uint32_t>(bytes, 16, kMaxPayloadBytes + 1);
  expect_closed(bytes, "frame payload of 8388609 bytes");
}

TEST(RpcMalformed, AUnaryRequestWithAPayloadIsRefused) {
  expect_closed(frame({.method = Method::kPing, .flags = kFlagRequest, .request_id = 1}, "", 10),
                "with a payload");
}

TEST(RpcMalformed, AResponseWhereARequestBelongsIsRefused) {
  expect_closed(frame({.method = Method::kPing, .flags = kFlagEnd, .request_id = 1}, ""),
                "request was expected");
}

TEST(RpcMalformed, ATruncatedFrameIsLogged) {
  Bytes bytes = ping_frame();
  bytes.resize(bytes.size() - 1);
  expect_closed(bytes, "ends inside a frame", true);
  bytes.resize(10);
  expect_closed(bytes, "ends inside a frame", true);
}

TEST(RpcMalformed, AStreamRequestAmongUnaryCallsIsRefused) {
  LogCapture log;
  run_on_loopback([](Rig& rig) -> asio::awaitable<void> {
    RawPeer peer(rig);
    CO_ASSERT_OK(co_await peer.connect());
    Bytes bytes = ping_frame();
    Bytes stream =
        frame({.method = Method::kReadChunk, .flags = kFlagRequest | kFlagStream, .request_id = 2}, "");
    bytes.insert(bytes.end(), stream.begin(), stream.end());
    CO_ASSERT_OK(co_await peer.send(bytes));
    EXPECT_LE(co_await peer.frames_until_closed(2), 1u);
  });
  EXPECT_EQ(log.count("unary request was expected"), 1u);
}

TEST(RpcMalformed, FramesOfAnotherCallBreakAStream) {
  run_on_loopback([](Rig& rig) -> asio::awaitable<void> {
    RawPeer peer(rig);
    CO_ASSERT_OK(co_await peer.connect());
    Bytes bytes =
        frame({.method = Method::kWriteChunk, .flags = kFlagRequest | kFlagStream, .request_id = 2}, "");
    Bytes other = frame({.method = Method::kWriteChunk, .flags = kFlagStream, .request_id = 3}, "", 100);
    bytes.insert(bytes.end(), other.begin(), other.end());
    CO_ASSERT_OK(co_await peer.send(bytes));
    EXPECT_EQ(co_await peer.frames_until_closed(1), 0u);
    EXPECT_EQ(rig.streams_served, 1u);
    EXPECT_TRUE(rig.uploaded.empty());
    CO_ASSERT_OK(co_await rig.ping_is_echoed());
  });
}

TEST(RpcMalformed, ManyFramesInOneWriteAndOneFrameInManyWritesAreServed) {
  run_on_loopback([](Rig& rig) -> asio::awaitable<void> {
    RawPeer peer(rig);
    CO_ASSERT_OK(co_await peer.connect());
    Bytes bytes;
    for (uint64_t id = 1; id <= 500; ++id) {
      Bytes next = ping_frame(id);
      bytes.insert(bytes.end(), next.begin(), next.end());
    }
    CO_ASSERT_OK(co_await peer.send(bytes));
    Bytes last = ping_frame(501);
    for (std::byte b : last) {
      Bytes one(1, b);
      CO_ASSERT_OK(co_await peer.send(one));
    }
    for (uint64_t answers = 0; answers < 501; ++answers) {
      Result<FrameView> frame = co_await peer.connection->next_frame();
      CO_ASSERT_TRUE(frame);
      EXPECT_EQ(frame->header.status, Code::kOk);
      peer.connection->consume(frame->bytes());
    }
  });
}

/// A valid frame or two with some bytes changed, cut, doubled or made up.
Bytes mutate(std::mt19937_64& random) {
  Bytes bytes;
  switch (random() % 3) {
    case 0: bytes = ping_frame(random()); break;
    case 1:
      bytes =
          frame({.method = Method::kWriteChunk, .flags = kFlagRequest | kFlagStream, .request_id = 5}, "");
      for (int i = 0; i < 3; ++i) {
        Bytes data =
            frame({.method = Method::kWriteChunk, .flags = kFlagStream, .request_id = 5}, "", random() % 500);
        bytes.insert(bytes.end(), data.begin(), data.end());
      }
      break;
    default: bytes = pattern_bytes(random() % 300, random());
  }
  for (uint64_t n = random() % 5; n > 0 && !bytes.empty(); --n) {
    size_t at = random() % bytes.size();
    switch (random() % 4) {
      case 0: bytes[at] ^= static_cast<std::byte>(1 << random() % 8); break;
      case 1: bytes[at] = static_cast<std::byte>(random()); break;
      case 2: bytes.resize(at); break;
      default:
        bytes.insert(bytes.begin() + static_cast<ptrdiff_t>(at), bytes.begin(),
                     bytes.begin() + static_cast<ptrdiff_t>(random() % (at + 1)));
    }
  }
  return bytes;
}

TEST(RpcMalformed, TwentyThousandMutatedConversationsHarmNobody) {
  constexpr uint64_t kSeed = 99;
  constexpr int kCases = 20'000;
  SCOPED_TRACE(::testing::Message() << "seed " << kSeed);
  LogCapture log;
  run_on_loopback([](Rig& rig) -> asio::awaitable<void> {
    std::mt19937_64 random(kSeed);
    for (int i = 0; i < kCases; ++i) {
      RawPeer peer(rig);
      CO_ASSERT_OK(co_await peer.connect());
      Bytes bytes = mutate(random);
      (void)co_await peer.send(bytes);
      peer.connection->close();
      if (i % 100 == 0) CO_ASSERT_OK(co_await rig.ping_is_echoed());
    }
    CO_ASSERT_OK(co_await rig.ping_is_echoed());
  });
  EXPECT_GE(log.count("closing connection"), 10u);
}

}  // namespace
}  // namespace kintsugi::rpc
