// Bytes pass between two ends of TLS: all of them arrive as they were sent, or the connection ends.
#include "common/runtime/tls/tls_session.h"
#include "tests/common/tls_rig.h"

namespace kintsugi::runtime {
namespace {

/// Two machines are connected, and each has one of these ends.
struct Pair {
  std::unique_ptr<Connection> client, server;
};

asio::awaitable<Pair> connect(SecureNode& server, SecureNode& client) {
  Pair pair;
  auto listener = server.runtime.network.listen({kServer, 7000});
  TaskGroup group(client.runtime);
  group.spawn([](SecureNode& from, Pair& into) -> asio::awaitable<void> {
    auto dialled = co_await from.runtime.network.dial({kServer, 7000}, TimePoint::max(), nullptr);
    EXPECT_TRUE(dialled);
    into.client = std::move(*dialled);
  }(client, pair));
  auto accepted = co_await (*listener)->accept();
  EXPECT_TRUE(accepted);
  pair.server = std::move(*accepted);
  co_await group.join();
  co_return pair;
}

/// Writes `bytes` in pieces, as a seed says: gathered, small and large ones.
asio::awaitable<void> write_in_pieces(Connection& to, const std::vector<std::byte>& bytes, uint64_t seed) {
  std::mt19937_64 random(seed);
  for (size_t at = 0; at < bytes.size();) {
    std::vector<asio::const_buffer> parts;
    for (size_t part = 0; part < 1 + random() % 5 && at < bytes.size(); ++part) {
      const size_t most = random() % 3 == 0 ? 300'000 : 100;
      const size_t length = std::min(bytes.size() - at, random() % most);
      parts.emplace_back(bytes.data() + at, length);
      at += length;
    }
    if (const Status written = co_await to.write(parts); !written.ok()) co_return;
  }
}

/// Reads until `into` is full or the connection fails; returns how much came.
asio::awaitable<size_t> read_in_pieces(Connection& from, std::vector<std::byte>& into, uint64_t seed) {
  std::mt19937_64 random(seed);
  size_t at = 0;
  while (at < into.size()) {
    const size_t most = random() % 3 == 0 ? 400'000 : 5'000;
    const std::span<std::byte> room =
        std::span(into).subspan(at, std::min(into.size() - at, 1 + random() % most));
    if (random() % 2 == 0) {
      if (const Status read = co_await from.read_exact(room); !read.ok()) co_return at;
      at += room.size();
    } else {
      const Result<size_t> read = co_await from.read_some(room);
      if (!read || *read == 0) co_return at;
      at += *read;
    }
  }
  co_return at;
}

/// One end has to send `sent`, and to receive as much as `came` has room for.
struct End {
  std::vector<std::byte> sent, came;
};

asio::awaitable<void> receive(Pair& pair, Connection& from, std::vector<std::byte>& into, uint64_t seed) {
  const size_t came = co_await read_in_pieces(from, into, seed);
  if (came == into.size()) co_return;
  into.resize(came);
  pair.client->close();
  pair.server->close();
}

/// Sends 3 MiB each way at once between a client, which comes first, and a server.
std::array<End, 2> exchange(uint64_t seed, uint32_t flips_per_million) {
  constexpr size_t kBytes = 3 << 20;
  CertificateFolder folder("cluster");
  simulation::Simulation simulation(seed);
  SecureNode server(simulation, kServer, folder.issue("store-1", {kServer})),
      client(simulation, kClient, folder.issue("user", {}));
  std::array<End, 2> ends;
  for (size_t i = 0; i < 2; ++i)
    ends[i] = {rpc::pattern_bytes(kBytes, seed + i), std::vector<std::byte>(kBytes)};
  const auto body = [&]() -> asio::awaitable<void> {
    Pair pair = co_await connect(server, client);
    simulation.network().set_flips(flips_per_million);
    TaskGroup group(client.runtime);
    group.spawn(write_in_pieces(*pair.client, ends[0].sent, seed));
    group.spawn(write_in_pieces(*pair.server, ends[1].sent, seed + 1));
    group.spawn(receive(pair, *pair.client, ends[0].came, seed + 2));
    group.spawn(receive(pair, *pair.server, ends[1].came, seed + 3));
    co_await group.join();
  };
  simulation.run(body());
  return ends;
}

TEST(Tls, BytesOfBothWaysArriveAsTheyWereSentInWhateverPieces) {
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    const auto ends = exchange(seed, 0);
    EXPECT_TRUE(ends[0].came == ends[1].sent);
    EXPECT_TRUE(ends[1].came == ends[0].sent);
  }
}

TEST(Tls, BytesThatAreChangedOnTheWayEndTheConnectionAndReachNobody) {
  size_t broken = 0;
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    const auto ends = exchange(seed, 2'000);
    for (size_t i = 0; i < 2; ++i) {
      const std::vector<std::byte>& came = ends[i].came;
      broken += came.size() < ends[1 - i].sent.size();
      EXPECT_TRUE(std::equal(came.begin(), came.end(), ends[1 - i].sent.begin()));
    }
  }
  EXPECT_GT(broken, 0u) << "the test changed nothing";
}

/// Moves what one session has to send into the other.
void pass_on(TlsSession& from, TlsSession& to) {
  std::vector<std::byte>& output = from.output();
  std::memcpy(to.room(output.size() + 1).data(), output.data(), output.size());
  to.filled(output.size());
  output.clear();
}

TEST(Tls, KeysAreReplacedWhileBytesFlow) {
  CertificateFolder folder("cluster");
  const auto identity = *TlsIdentity::load(folder.issue("store-1", {kServer}));
  TlsSession client(identity, TlsEnd::kClient, kServer, folder.now()),
      server(identity, TlsEnd::kServer, "", folder.now());
  for (int i = 0; i < 4; ++i) {
    EXPECT_TRUE(client.shake_hands());
    pass_on(client, server);
    EXPECT_TRUE(server.shake_hands());
    pass_on(server, client);
  }
  client.records_of_a_key = 3;
  for (size_t i = 0; i < 20; ++i) {
    const std::vector<std::byte> bytes = rpc::pattern_bytes(1000 + i, i);
    KINTSUGI_EXPECT_OK(client.write(bytes));
    // With a new key a record comes that is not data.
    EXPECT_EQ(client.output().size() > bytes.size() + 22, i > 0 && i % 3 == 0) << i;
    pass_on(client, server);
    std::vector<std::byte> came(2000);
    const Result<size_t> got = server.read(came);
    ASSERT_TRUE(got) << got.error();
    came.resize(*got);
    EXPECT_TRUE(came == bytes);
  }
}

}  // namespace
}  // namespace kintsugi::runtime
