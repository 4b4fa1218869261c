#include "common/rpc/handshake.h"
#include "tests/common/rpc_rig.h"

namespace kintsugi::rpc {
namespace {

constexpr std::string_view kMismatch = "cluster secret does not match";

TEST(RpcHandshake, TellsAClientWithAnotherSecretAndLogsItAndServesOthers) {
  LogCapture log;
  run_on_loopback([](Rig& rig) -> asio::awaitable<void> {
    CO_ASSERT_OK(co_await rig.ping_is_echoed());
    Client stranger(rig.client_runtime, test_secret(2));
    proto::ErrorDetail request = text("x"), response;
    const Status answer = co_await stranger.call(Context{}, rig.at, Method::kPing, request, response);
    EXPECT_EQ(answer.code(), Code::kPermissionDenied);
    EXPECT_NE(answer.message().find(kMismatch), std::string::npos) << answer;
    EXPECT_NE(answer.message().find(rig.at.to_string()), std::string::npos) << answer;
    proto::Empty empty;
    auto stream = co_await stranger.open_stream(Context{}, rig.at, Method::kReadChunk, empty);
    EXPECT_TRUE(!stream && stream.error().code() == Code::kPermissionDenied);
    co_await stranger.stop();
    CO_ASSERT_OK(co_await rig.ping_is_echoed());
  });
  EXPECT_EQ(log.count(kMismatch), 2u);
}

/// A client's end of a connection that has not proven anything yet.
asio::awaitable<Result<std::unique_ptr<runtime::Connection>>> dial(Rig& rig) {
  return rig.client_runtime.network.dial(rig.at, rig.client_runtime.clock.now() + 5s);
}

asio::awaitable<Status> send(runtime::Connection& connection, std::span<const std::byte> bytes) {
  asio::const_buffer buffer(bytes.data(), bytes.size());
  co_return co_await connection.write(std::span(&buffer, 1));
}

/// Everything the server sends until it closes.
asio::awaitable<std::vector<std::byte>> read_to_end(runtime::Connection& connection) {
  std::vector<std::byte> all(1 << 16);
  size_t size = 0;
  while (size < all.size()) {
    Result<size_t> read = co_await connection.read_some(std::span(all).subspan(size));
    if (!read || *read == 0) break;
    size += *read;
  }
  all.resize(size);
  co_return all;
}

std::vector<std::byte> hello(uint16_t version, std::byte nonce) {
  std::vector<std::byte> out(24, nonce);
  std::memcpy(out.data(), &kMagic, 4);
  std::memcpy(out.data() + 4, &version, 2);
  out[6] = out[7] = std::byte{0};
  return out;
}

size_t times(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size()))
    ++found;
  return found;
}

asio::awaitable<void> accept_and_hang_up(runtime::Listener& listener) {
  while (auto connection = co_await listener.accept())
    (*connection)->close();
}

TEST(RpcHandshake, AnErrorNamesThePeerOnce) {
  runtime::ProductionRuntime production;
  const runtime::Runtime runtime = production.runtime();
  const auto body = [&]() -> asio::awaitable<void> {
    const auto listener = runtime.network.listen({"127.0.0.1", 0});
    CO_ASSERT_TRUE(listener);
    const runtime::Endpoint at = (*listener)->local_endpoint();
    runtime::TaskGroup tasks(runtime);
    tasks.spawn(accept_and_hang_up(**listener));
    Client client(runtime, test_secret());
    proto::ErrorDetail request = text("x"), response;
    const Context limited = Context{}.with_deadline(runtime.clock.now() + 5s);
    const Status hung_up = co_await client.call(limited, at, Method::kPing, request, response);
    EXPECT_EQ(hung_up.code(), Code::kUnavailable);
    EXPECT_EQ(times(hung_up.message(), at.to_string()), 1u) << hung_up;
    (*listener)->close();
    co_await tasks.join();
    const Status refused = co_await client.call(limited, at, Method::kPing, request, response);
    EXPECT_EQ(refused.code(), Code::kUnavailable);
    EXPECT_EQ(times(refused.message(), at.to_string()), 1u) << refused;
    co_await client.stop();
  };
  run_on(production, body());
}

TEST(RpcHandshake, RefusesTheServersOwnProofSentBack) {
  LogCapture log;
  run_on_loopback([](Rig& rig) -> asio::awaitable<void> {
    auto connection = co_await dial(rig);
    CO_ASSERT_TRUE(connection);
    std::vector<std::byte> greeting = hello(kVersion, std::byte{7});
    CO_ASSERT_OK(co_await send(**connection, greeting));
    std::array<std::byte, 56> answer;
    CO_ASSERT_OK(co_await (*connection)->read_exact(answer));
    CO_ASSERT_OK(co_await send(**connection, std::span(answer).subspan(24)));
    std::array<std::byte, 1> verdict;
    CO_ASSERT_OK(co_await (*connection)->read_exact(verdict));
    EXPECT_EQ(verdict[0], std::byte{0});
  });
  EXPECT_EQ(log.count(kMismatch), 1u);
}

TEST(RpcHandshake, AProofIsGoodForOneConnectionOnly) {
  run_on_loopback([](Rig& rig) -> asio::awaitable<void> {
    auto first = co_await dial(rig);
    auto second = co_await dial(rig);
    CO_ASSERT_TRUE(first && second);
    std::array<std::byte, 56> one, other;
    std::vector<std::byte> greeting = hello(kVersion, std::byte{7});
    CO_ASSERT_OK(co_await send(**first, greeting));
    CO_ASSERT_OK(co_await send(**second, greeting));
    CO_ASSERT_OK(co_await (*first)->read_exact(one));
    CO_ASSERT_OK(co_await (*second)->read_exact(other));
    EXPECT_NE(std::memcmp(one.data() + 8, other.data() + 8, 16), 0) << "the server's nonce must be fresh";
    EXPECT_NE(std::memcmp(one.data() + 24, other.data() + 24, 32), 0);
  });
}

TEST(RpcHandshake, ASilentConnectionIsClosedAtTheLimit) {
  LogCapture log;
  run_simulated([](Rig& rig, simulation::Simulation&) -> asio::awaitable<void> {
    auto connection = co_await dial(rig);
    CO_ASSERT_TRUE(connection);
    TimePoint begin = rig.client_runtime.clock.now();
    std::vector<std::byte> got = co_await read_to_end(**connection);
    EXPECT_TRUE(got.empty());
    EXPECT_GE(rig.client_runtime.clock.now() - begin, 1900ms);
    EXPECT_LE(rig.client_runtime.clock.now() - begin, 2500ms);
  });
  EXPECT_EQ(log.count("handshake: not finished in time"), 1u);
}

TEST(RpcHandshake, AVersionThatIsTooOldIsSaidOnBothSides) {
  LogCapture log;
  run_on_loopback([](Rig& rig) -> asio::awaitable<void> {
    auto connection = co_await dial(rig);
    CO_ASSERT_TRUE(connection);
    std::vector<std::byte> greeting = hello(kOldestVersion - 1, std::byte{7});
    CO_ASSERT_OK(co_await send(**connection, greeting));
    std::vector<std::byte> answer = co_await read_to_end(**connection);
    CO_ASSERT_TRUE(answer.size() == 24);
    EXPECT_EQ(std::memcmp(answer.data(), hello(kVersion, std::byte{0}).data(), 8), 0);
  });
  EXPECT_EQ(log.count(fmt::format("peer speaks version {}, this is {}", kOldestVersion - 1, kVersion)), 1u);
}

TEST(RpcHandshake, ANewerClientIsAnsweredWithTheNewestVersionThatTheServerSpeaks) {
  run_on_loopback([](Rig& rig) -> asio::awaitable<void> {
    auto connection = co_await dial(rig);
    CO_ASSERT_TRUE(connection);
    std::vector<std::byte> greeting = hello(kVersion + 1, std::byte{7});
    CO_ASSERT_OK(co_await send(**connection, greeting));
    std::array<std::byte, 56> answer;
    CO_ASSERT_OK(co_await (*connection)->read_exact(answer));
    EXPECT_EQ(std::memcmp(answer.data(), hello(kVersion, std::byte{0}).data(), 8), 0)
        << "with its proof: the client decides whether it speaks that";
  });
}

/// A server of a later version that does not speak this one's any more.
asio::awaitable<void> answer_newer(runtime::Listener& listener) {
  auto connection = co_await listener.accept();
  if (!connection) co_return;
  std::vector<std::byte> answer = hello(kVersion + 1, std::byte{9});
  answer.resize(56);
  (void)co_await send(**connection, answer);
  std::array<std::byte, 64> sink;
  (void)co_await (*connection)->read_some(sink);
}

TEST(RpcHandshake, AClientRefusesAServerThatSpeaksANewerVersionOnly) {
  run_on_loopback([](Rig& rig) -> asio::awaitable<void> {
    auto listener = rig.server_runtime.network.listen({"127.0.0.1", 0});
    CO_ASSERT_TRUE(listener);
    runtime::TaskGroup group(rig.server_runtime);
    group.spawn(answer_newer(**listener));
    runtime::Endpoint at = (*listener)->local_endpoint();
    auto answer = co_await rig.client.call_raw(Context{}, at, Method::kPing, "");
    CO_ASSERT_TRUE(!answer);
    EXPECT_NE(answer.error().message().find(fmt::format("peer speaks version {}", kVersion + 1)),
              std::string::npos)
        << answer.error();
    (*listener)->close();
    co_await group.join();
  });
}

asio::awaitable<void> answer_http(runtime::Listener& listener) {
  auto connection = co_await listener.accept();
  if (!connection) co_return;
  std::string_view page = "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
  (void)co_await send(**connection, std::as_bytes(std::span(page)));
  std::array<std::byte, 64> sink;
  (void)co_await (*connection)->read_some(sink);
}

TEST(RpcHandshake, AClientSaysWhenTheOtherSideIsNoKintsugiPeer) {
  run_on_loopback([](Rig& rig) -> asio::awaitable<void> {
    auto listener = rig.server_runtime.network.listen({"127.0.0.1", 0});
    CO_ASSERT_TRUE(listener);
    runtime::TaskGroup group(rig.server_runtime);
    group.spawn(answer_http(**listener));
    runtime::Endpoint at = (*listener)->local_endpoint();
    auto answer = co_await rig.client.call_raw(Context{}, at, Method::kPing, "");
    CO_ASSERT_TRUE(!answer);
    EXPECT_EQ(answer.error().code(), Code::kUnavailable);
    EXPECT_NE(answer.error().message().find("not a Kintsugi peer"), std::string::npos) << answer.error();
    co_await group.join();
  });
}

TEST(RpcHandshake, GarbageClosesThatConnectionAndNoOtherAndIsLoggedAFewTimesAMinute) {
  constexpr uint64_t kSeed = 4711;
  constexpr size_t kConnections = 300;
  SCOPED_TRACE(::testing::Message() << "seed " << kSeed);
  LogCapture log;
  run_on_loopback([](Rig& rig) -> asio::awaitable<void> {
    CO_ASSERT_OK(co_await rig.ping_is_echoed());
    std::mt19937_64 random(kSeed);
    for (size_t i = 0; i < kConnections; ++i) {
      auto connection = co_await dial(rig);
      CO_ASSERT_TRUE(connection);
      std::vector<std::byte> garbage = pattern_bytes(24 + random() % 200, random());
      // A fair share gets past the magic and fails at the proof.
      if (i % 2 == 0) std::memcpy(garbage.data(), hello(kVersion, std::byte{0}).data(), 8);
      if (i % 2 == 0) garbage.resize(24 + 32);
      CO_ASSERT_OK(co_await send(**connection, garbage));
      (void)co_await read_to_end(**connection);
    }
    CO_ASSERT_OK(co_await rig.ping_is_echoed());
  });
  EXPECT_EQ(log.count("closing connection from"), 10u);
}

TEST(RpcHandshake, StrangersThatSayNothingKeepNobodyOutAndDoNotFillTheLog) {
  LogCapture log;
  simulation::Simulation simulation(1);
  simulation::SimNode server_node(simulation, "server"), stranger_node(simulation, "stranger"),
      client_node(simulation, "client");
  Rig rig(server_node.runtime(), client_node.runtime(), {.max_connections = 600});
  rig.start("server", 7000);
  const auto flood = [&]() -> asio::awaitable<void> {
    std::vector<std::unique_ptr<runtime::Connection>> idle;
    for (int i = 0; i < 5000; ++i) {
      const runtime::Runtime& stranger = stranger_node.runtime();
      auto dialed = co_await stranger.network.dial(rig.at, stranger.clock.now() + 5s);
      CO_ASSERT_TRUE(dialed);
      idle.push_back(std::move(*dialed));
      if (i % 1000 != 999) continue;
      Client newcomer(rig.client_runtime, test_secret());
      proto::ErrorDetail request = text("x"), response;
      KINTSUGI_EXPECT_OK(co_await newcomer.call(Context{}, rig.at, Method::kPing, request, response));
      co_await newcomer.stop();
    }
  };
  simulation.run(flood());
  simulation.run(rig.stop());
  EXPECT_LE(log.lines().size(), 20u);
}

}  // namespace
}  // namespace kintsugi::rpc
