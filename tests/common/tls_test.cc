#include <gmock/gmock.h>

#include "common/http/http_server.h"
#include "common/http/kept_connection.h"
#include "common/runtime/tls/tls_connection.h"
#include "tests/common/tls_rig.h"

namespace kintsugi::runtime {
namespace {

constexpr const char* kServer = "10.0.0.1";
constexpr const char* kClient = "10.0.0.2";

/// What a client and a server say of one call between them.
struct Said {
  Status client;
  std::vector<std::string> server;
};

/// `server_clock`: how far the server's wall clock is ahead.
Said call_between(const TlsFiles& server_files, const TlsFiles& client_files, Duration server_clock = {}) {
  rpc::LogCapture log;
  simulation::Simulation simulation(1);
  SecureNode server(simulation, kServer, server_files), client(simulation, kClient, client_files);
  server.node.set_wall_offset(server_clock);
  Said said;
  const auto body = [&]() -> asio::awaitable<void> {
    rpc::Rig rig(server.runtime, client.runtime);
    rig.start(kServer, 7000);
    const Context limited = Context{}.with_deadline(client.runtime.clock.now() + 5s);
    const proto::ErrorDetail request = rpc::text("hello");
    proto::ErrorDetail response;
    said.client = co_await rig.client.call(limited, rig.at, rpc::Method::kPing, request, response);
    // The server hears of a refusal a moment later.
    TaskGroup moment(client.runtime);
    co_await moment.sleep_for(100ms);
    co_await moment.join();
    co_await rig.stop();
  };
  simulation.run(body());
  said.server = log.lines();
  return said;
}

void expect_refused(const Said& said, std::string_view client, std::string_view server) {
  EXPECT_EQ(said.client.code(), Code::kPermissionDenied) << said.client;
  EXPECT_THAT(said.client.message(), ::testing::HasSubstr(client));
  EXPECT_THAT(said.client.message(), ::testing::StartsWith(std::string(kServer) + ":7000: "));
  ASSERT_EQ(said.server.size(), 1u) << "one line, and no more";
  EXPECT_THAT(said.server[0], ::testing::HasSubstr(server));
  EXPECT_THAT(said.server[0], ::testing::HasSubstr(kClient));
}

TEST(Tls, HostsOfOneAuthorityTalkAndNothingIsLogged) {
  CertificateFolder folder("cluster");
  const Said said = call_between(folder.issue("store-1", {kServer}), folder.issue("user", {}));
  KINTSUGI_EXPECT_OK(said.client);
  EXPECT_TRUE(said.server.empty());
}

TEST(Tls, AClientWhoseCertificateIsNotAcceptedIsToldWhyAndTheServerSaysItToo) {
  CertificateFolder folder("cluster"), foreign("elsewhere");
  const TlsFiles server = folder.issue("store-1", {kServer});
  TlsFiles expired = folder.issue("user", {}, kDay, folder.now() - 2 * kDay);
  expect_refused(call_between(server, expired), "the certificate of \"user\" expired at 2023-12-31 00:00 UTC",
                 "the certificate of \"user\" expired at 2023-12-31 00:00 UTC");
  TlsFiles early = folder.issue("user", {}, kDay, folder.now() + kDay);
  expect_refused(call_between(server, early), "is valid from 2024-01-02 00:00 UTC on",
                 "one of the two clocks is wrong");
  TlsFiles stranger = foreign.issue("user", {});
  expect_refused(
      call_between(server, stranger), "is of another authority than this cluster's",
      "the peer refuses the certificate of \"store-1\" that this host shows: it is of another authority");
  std::ofstream(stranger.authority, std::ios::app) << std::ifstream(server.authority).rdbuf();
  expect_refused(
      call_between(server, stranger),
      "the peer refuses the certificate of \"user\" that this host shows: it is of another authority",
      "the certificate of \"user\" is of another authority than this cluster's");
}

TEST(Tls, ARevokedCertificateIsRefusedAndTheOthersAreNot) {
  CertificateFolder folder("cluster");
  const TlsFiles server = folder.issue("store-1", {kServer}), stolen = folder.issue("stolen", {}),
                 user = folder.issue("user", {});
  // Whoever stole it does not look at the list.
  TlsFiles unaware = stolen;
  unaware.authority = stolen.certificate + ".authority";
  std::filesystem::copy_file(stolen.authority, unaware.authority);
  folder.revoke(stolen);
  expect_refused(call_between(server, unaware),
                 "the peer refuses the certificate of \"stolen\" that this host shows: it is revoked",
                 "the certificate of \"stolen\" is revoked");
  KINTSUGI_EXPECT_OK(call_between(server, user).client);
}

TEST(Tls, AServerThatIsNotWhatWasDialledIsRefused) {
  CertificateFolder folder("cluster");
  const TlsFiles client = folder.issue("user", {});
  expect_refused(call_between(folder.issue("store-9", {"10.0.0.9", "store-9"}), client),
                 "the certificate of \"store-9\" is for 10.0.0.9, \"store-9\", and not for 10.0.0.1",
                 "the peer refuses the certificate of \"store-9\" that this host shows");
  expect_refused(call_between(folder.issue("expired", {kServer}, kDay, folder.now() - 2 * kDay), client),
                 "the certificate of \"expired\" expired at", "the certificate of \"expired\" expired at");
  // Who has a client's certificate only cannot take the place of a daemon.
  expect_refused(call_between(folder.issue("other-user", {}), client), "is a client's: no server may show it",
                 "refuses the certificate of \"other-user\"");
}

TEST(Tls, AnInterfaceIsNoPartOfTheAddressThatACertificateIsFor) {
  CertificateFolder folder("cluster");
  const auto identity = *TlsIdentity::load(folder.issue("user", {}));
  for (const char* const host : {"fe80::1%eth0", "fe80::1%2", "::ffff:10.0.0.1", "store-1"}) {
    TlsSession session(identity, TlsEnd::kClient, host, folder.now());
    const auto done = session.shake_hands();
    EXPECT_TRUE(done && !*done && !session.output().empty()) << host;
  }
}

TEST(Tls, AServerWithTheClockOfLastYearSaysWhatIsWrong) {
  CertificateFolder folder("cluster");
  const Said said = call_between(folder.issue("store-1", {kServer}), folder.issue("user", {}), -365 * kDay);
  expect_refused(said, "not valid yet by the peer's clock",
                 "is valid from 2023-12-31 00:00 UTC on, and the clock here says 2023-01-01");
}

TEST(Tls, WhoSpeaksNoTlsIsToldOnBothSides) {
  CertificateFolder folder("cluster");
  expect_refused(call_between(folder.issue("store-1", {kServer}), {}),
                 "TLS only is spoken there: set tls.certificate",
                 "the peer does not speak TLS, and other hosts have to");
  const Said said = call_between({}, folder.issue("user", {}));
  EXPECT_EQ(said.client.code(), Code::kUnavailable);
  EXPECT_THAT(said.client.message(), ::testing::HasSubstr("ended in the handshake: does TLS answer there?"));
  ASSERT_EQ(said.server.size(), 1u);
  EXPECT_THAT(said.server[0], ::testing::HasSubstr("the peer speaks TLS, and this daemon does not"));
}

TEST(Tls, AServerAnswersNobodyWhoIsSilentInItsHandshakeForLongerThanItsLimit) {
  CertificateFolder folder("cluster");
  rpc::LogCapture log;
  simulation::Simulation simulation(1);
  SecureNode server(simulation, kServer, folder.issue("store-1", {kServer})), client(simulation, kClient, {});
  const auto body = [&]() -> asio::awaitable<void> {
    rpc::Rig rig(server.runtime, client.runtime);
    rig.start(kServer, 7000);
    auto silent = co_await client.plain.network.dial(rig.at, client.plain.clock.now() + 5s);
    CO_ASSERT_TRUE(silent);
    const std::string begin("\x16\x03\x01\x02", 4);
    const asio::const_buffer buffer(begin.data(), begin.size());
    CO_ASSERT_OK(co_await (*silent)->write(std::span(&buffer, 1)));
    const TimePoint since = client.plain.clock.now();
    std::array<std::byte, 16> bytes;
    const auto read = co_await (*silent)->read_some(bytes);
    EXPECT_TRUE(read && *read == 0);
    EXPECT_LE(client.plain.clock.now() - since, 2500ms);
    co_await rig.stop();
  };
  simulation.run(body());
  EXPECT_EQ(log.count("handshake: not finished in time"), 1u);
}

/// A pair of connections between two machines.
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

/// What one end has to do: to send `sent`, and to receive as much as `came` has room for.
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

TEST(Tls, AnIdentityThatCannotWorkIsRefusedInOneLine) {
  CertificateFolder folder("cluster"), foreign("elsewhere");
  const TlsFiles good = folder.issue("store-1", {kServer}), other = folder.issue("store-2", {"10.0.0.2"});
  const auto why = [](const TlsFiles& files) {
    const auto loaded = TlsIdentity::load(files);
    return loaded ? "it was loaded" : loaded.error().message();
  };
  EXPECT_EQ(why(good), "it was loaded");
  TlsFiles files = good;
  files.key = other.key;
  EXPECT_THAT(why(files), ::testing::HasSubstr("is not the key of the certificate"));
  files = good;
  files.authority = foreign.issue("x", {}).authority;
  EXPECT_THAT(why(files), ::testing::HasSubstr("(of \"store-1\") is not one of the authority in"));
  EXPECT_THAT(why(folder.self_made("me")), ::testing::HasSubstr("is not one of the authority in"));
  files = good;
  files.authority = good.certificate;
  EXPECT_THAT(why(files), ::testing::HasSubstr("is no authority's"));
  // A list of revocations that did not arrive wholly.
  folder.revoke(other);
  EXPECT_EQ(why(good), "it was loaded");
  std::filesystem::resize_file(good.authority, std::filesystem::file_size(good.authority) - 60);
  EXPECT_THAT(why(good), ::testing::HasSubstr("is damaged or cut off"));
  files.authority = "";
  EXPECT_EQ(why(files), "tls.authority is not set: TLS needs all three files");
  files = good;
  files.certificate = good.key;
  EXPECT_THAT(why(files), ::testing::HasSubstr("holds no certificate as PEM"));
  files.certificate = "/nowhere";
  EXPECT_THAT(why(files), ::testing::HasSubstr("/nowhere"));
  ::chmod(other.key.c_str(), 0640);
  EXPECT_THAT(why(other), ::testing::HasSubstr("has mode 0640: others may read it (chmod 600)"));
}

/// What one end of ours says of a peer that shows this certificate without having looked at it. Empty: it accepts it.
std::string refusal_of(const TlsFiles& own, TlsEnd end, const TlsFiles& shown) {
  const OwnedSslContext context(SSL_CTX_new(TLS_method()));
  EXPECT_EQ(SSL_CTX_use_certificate_chain_file(context.get(), shown.certificate.c_str()), 1);
  EXPECT_EQ(SSL_CTX_use_PrivateKey_file(context.get(), shown.key.c_str(), SSL_FILETYPE_PEM), 1);
  const OwnedSsl peer(SSL_new(context.get()));
  SSL_set_bio(peer.get(), BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
  end == TlsEnd::kClient ? SSL_set_accept_state(peer.get()) : SSL_set_connect_state(peer.get());
  const WallTime now(19723 * kDay);
  TlsSession session(*TlsIdentity::load(own), end, end == TlsEnd::kClient ? kServer : "", now);
  for (int turn = 0; turn < 4; ++turn) {
    SSL_do_handshake(peer.get());
    std::array<std::byte, 16384> bytes;
    for (int got; (got = BIO_read(SSL_get_wbio(peer.get()), bytes.data(), bytes.size())) > 0;) {
      std::ranges::copy(std::span(bytes).first(got), session.room(got).begin());
      session.filled(got);
    }
    const auto done = session.shake_hands();
    if (!done) return done.error().message();
    if (*done) return "";
    BIO_write(SSL_get_rbio(peer.get()), session.output().data(), static_cast<int>(session.output().size()));
    session.output().clear();
  }
  return "the handshake did not end";
}

TEST(Tls, ACertificateIsAcceptedOnlyInTheRoleThatItNames) {
  CertificateFolder folder("cluster");
  const TlsFiles host = folder.issue("store-1", {kServer});
  const auto with = [&](const char* name, const char* usage) {
    return folder.issue_with_usage(name, {kServer}, usage);
  };
  const TlsFiles bare = with("bare", ""), server = with("server", "serverAuth"),
                 mail = with("mail", "emailProtection"), any = with("any", "anyExtendedKeyUsage"),
                 both = with("both", "clientAuth,serverAuth");
  for (const TlsEnd end : {TlsEnd::kClient, TlsEnd::kServer, TlsEnd::kPages}) {
    EXPECT_EQ(refusal_of(host, end, both), "");
    EXPECT_EQ(
        refusal_of(host, end, bare),
        "tls: the certificate of \"bare\" has no extended key usage: one of a client needs clientAuth, and "
        "one of a daemon serverAuth, too");
    for (const TlsFiles& other : {mail, any})
      EXPECT_THAT(refusal_of(host, end, other),
                  ::testing::HasSubstr("has neither serverAuth nor clientAuth in its extended key usage"));
  }
  EXPECT_EQ(refusal_of(host, TlsEnd::kClient, server), "");
  EXPECT_THAT(refusal_of(host, TlsEnd::kServer, server),
              ::testing::HasSubstr(
                  "the certificate of \"server\" is only a server's: who connects needs clientAuth"));
  EXPECT_THAT(refusal_of(host, TlsEnd::kClient, folder.issue("user", {})),
              ::testing::HasSubstr("is a client's: no server may show it"));
  // Who has such a certificate is told so at the start.
  for (const TlsFiles& unusable : {bare, server, mail, any}) {
    const auto loaded = TlsIdentity::load(unusable);
    ASSERT_FALSE(loaded);
    EXPECT_EQ(loaded.error().code(), Code::kInvalidArgument);
    EXPECT_THAT(loaded.error().message(), ::testing::HasSubstr("extended key usage"));
    EXPECT_THAT(loaded.error().message(), ::testing::HasSubstr(unusable.certificate));
  }
}

TEST(Tls, ANewCertificateIsUsedByTheNextConnectionAndAnUnusableOneByNone) {
  CertificateFolder folder("cluster");
  const TlsFiles files = folder.issue("old", {kServer});
  const auto credentials = *TlsCredentials::load(files);
  TimePoint now{};
  EXPECT_EQ(credentials->current(now)->name(), "\"old\"");
  const TlsFiles renewed = folder.issue("new", {kServer});
  rpc::LogCapture log;
  // The certificate is there before its key is.
  std::filesystem::rename(renewed.certificate, files.certificate);
  EXPECT_EQ(credentials->current(now)->name(), "\"old\"") << "it was looked at a moment ago";
  now += TlsCredentials::kLookInterval;
  EXPECT_EQ(credentials->current(now)->name(), "\"old\"");
  now += TlsCredentials::kLookInterval;
  EXPECT_EQ(credentials->current(now)->name(), "\"old\"");
  EXPECT_EQ(log.count("cannot be used, the former ones stay in use"), 1u) << "once, and not every time";
  std::filesystem::rename(renewed.key, files.key);
  now += TlsCredentials::kLookInterval;
  EXPECT_EQ(credentials->current(now)->name(), "\"new\"");
  EXPECT_EQ(log.count("new files were read: the certificate of \"new\" is valid until 2024-01-30"), 1u);
  std::filesystem::remove(files.key);
  now += TlsCredentials::kLookInterval;
  EXPECT_EQ(credentials->current(now)->name(), "\"new\"");
}

TEST(Tls, WhoWasAcceptedBeforeMayTryAgainWhenACertificateHasExpired) {
  CertificateFolder folder("cluster");
  rpc::LogCapture log;
  simulation::Simulation simulation(1);
  SecureNode server(simulation, kServer, folder.issue("store-1", {kServer}));
  SecureNode client(simulation, kClient, folder.issue("user", {}, 2 * kDay));
  const auto body = [&]() -> asio::awaitable<void> {
    rpc::Rig rig(server.runtime, client.runtime);
    rig.start(kServer, 7000);
    TaskGroup waits(client.runtime);
    CO_ASSERT_OK(co_await rig.ping_is_echoed());
    co_await waits.sleep_for(5min);  // nobody needs the connection any more
    server.node.set_wall_offset(2 * kDay);
    const Status refused = co_await rig.ping_is_echoed();
    EXPECT_EQ(refused.code(), Code::kUnavailable);
    EXPECT_THAT(refused.message(), ::testing::HasSubstr("it takes it for expired"));
    server.node.set_wall_offset({});
    KINTSUGI_EXPECT_OK(co_await rig.ping_is_echoed());
    co_await waits.join();
    co_await rig.stop();
  };
  simulation.run(body());
}

TEST(Tls, BothAuthoritiesAreBelievedWhileOneFollowsTheOther) {
  CertificateFolder before("cluster"), after("cluster-2");
  TlsFiles server = before.issue("store-1", {kServer}), client = after.issue("user", {});
  std::ofstream(server.authority, std::ios::app) << std::ifstream(client.authority).rdbuf();
  client.authority = server.authority;
  KINTSUGI_EXPECT_OK(call_between(server, client).client);
}

TEST(Tls, AListOfRevocationsIsForTheCertificatesOfItsOwnAuthority) {
  // Also when both authorities have one name, as those of two `cluster init`.
  for (const char* const name : {"cluster", "cluster-2"}) {
    CertificateFolder before("cluster"), after(name);
    TlsFiles server = before.issue("store-1", {kServer}), client = after.issue("user", {});
    const TlsFiles stolen = before.issue("stolen", {});
    TlsFiles unaware = stolen;
    unaware.authority = stolen.certificate + ".authority";
    std::filesystem::copy_file(stolen.authority, unaware.authority);
    before.revoke(stolen);
    std::ofstream(server.authority, std::ios::app) << std::ifstream(client.authority).rdbuf();
    client.authority = server.authority;
    KINTSUGI_EXPECT_OK(call_between(server, client).client);
    expect_refused(call_between(server, unaware), "it is revoked",
                   "the certificate of \"stolen\" is revoked");
  }
}

/// Returns once no coroutine of the server is left.
asio::awaitable<void> stop(http::HttpServer& http, SecureNode& server) {
  http.stop();
  TaskGroup turns(server.runtime);
  co_await turns.sleep_for(1s);
  co_await turns.join();
}

TEST(Tls, PagesAreServedAndReadOverIt) {
  CertificateFolder folder("cluster");
  rpc::LogCapture log;
  simulation::Simulation simulation(1);
  SecureNode server(simulation, kServer, folder.issue("store-1", {kServer})),
      client(simulation, kClient, folder.issue("user", {})), stranger(simulation, "10.0.0.3", {});
  const std::string page(300'000, 'x');
  const auto body = [&]() -> asio::awaitable<void> {
    http::HttpServer http(server.runtime);
    http.handle("/page", [&](std::string_view) { return http::Response{.body = page}; });
    CO_ASSERT_OK(http.start({kServer, 80}));
    const TimePoint deadline = client.runtime.clock.now() + 5s;
    http::KeptConnection reader(client.runtime, {kServer, 80});
    for (int i = 0; i < 2; ++i) {
      const auto answer = co_await reader.get("/page", deadline);
      EXPECT_TRUE(answer && *answer == page);
    }
    http::KeptConnection plain(stranger.runtime, {kServer, 80});
    const auto refused = co_await plain.get("/page", deadline);
    EXPECT_FALSE(refused);
    EXPECT_THAT(refused.error().message(), ::testing::HasSubstr("400 Bad Request"));
    reader.close();
    plain.close();
    co_await stop(http, server);
  };
  simulation.run(body());
  EXPECT_EQ(log.count("http: closing connection from 10.0.0.3"), 1u);
}

/// Lets nobody in, and notes who was asked about.
class ClosedPages final : public http::PageGuard {
 public:
  Status admit(std::string_view path, std::string_view authorization, PeerProof shown) const override {
    asked.push_back(fmt::format("{} {} {}", path, authorization, static_cast<int>(shown)));
    return {Code::kPermissionDenied, "not for you"};
  }
  mutable std::vector<std::string> asked;
};

TEST(Tls, PagesAreForHostsOfTheClusterAndForOthersOnlyByTheirGuard) {
  CertificateFolder folder("cluster");
  simulation::Simulation simulation(1);
  SecureNode server(simulation, kServer, folder.issue("store-1", {kServer})),
      host(simulation, "10.0.0.3", folder.issue("store-2", {"10.0.0.3"})),
      client(simulation, kClient, folder.issue("user", {}));
  ClosedPages guard;
  const auto body = [&]() -> asio::awaitable<void> {
    http::HttpServer http(server.runtime);
    http.handle("/page", [](std::string_view) { return http::Response{.body = "inside"}; });
    http.guard_by(guard);
    CO_ASSERT_OK(http.start({kServer, 80}));
    const TimePoint deadline = client.runtime.clock.now() + 5s;
    http::KeptConnection of_host(host.runtime, {kServer, 80}), of_client(client.runtime, {kServer, 80});
    const auto seen = co_await of_host.get("/page", deadline);
    EXPECT_TRUE(seen && *seen == "inside") << (seen ? *seen : seen.error().message());
    EXPECT_TRUE(guard.asked.empty());
    // Pages that do not exist are not told apart either.
    for (const char* path : {"/page", "/nothing"}) {
      const auto refused = co_await of_client.get(path, deadline);
      EXPECT_FALSE(refused);
      EXPECT_THAT(refused.error().message(), ::testing::HasSubstr("401 Unauthorized\": \"not for you\""));
    }
    of_host.close();
    of_client.close();
    co_await stop(http, server);
  };
  simulation.run(body());
  EXPECT_THAT(guard.asked, ::testing::ElementsAre("/page  1", "/nothing  1"));
}

TEST(Tls, LoopbackStaysPlainWithCertificatesAndWithoutThemIsAllThatMayBeListenedAt) {
  CertificateFolder folder("cluster");
  ProductionRuntime with({}, *tls_policy(folder.issue("store-1", {kServer}), true)),
      without({}, {nullptr, true}), careless({}, {nullptr, false});
  const auto body = [](ProductionRuntime& one) -> asio::awaitable<void> {
    auto listener = one.runtime().network.listen({"127.0.0.1", 0});
    CO_ASSERT_TRUE(listener);
    auto connection =
        co_await one.runtime().network.dial((*listener)->local_endpoint(), one.runtime().clock.now() + 5s);
    CO_ASSERT_TRUE(connection);
    auto accepted = co_await (*listener)->accept();
    CO_ASSERT_TRUE(accepted);
    EXPECT_EQ(dynamic_cast<TlsConnection*>(connection->get()), nullptr);
    EXPECT_EQ(dynamic_cast<TlsConnection*>(accepted->get()), nullptr);
  };
  run_on(with, body(with));
  run_on(without, body(without));
  EXPECT_TRUE(with.runtime().network.listen({"0.0.0.0", 0}));
  EXPECT_TRUE(careless.runtime().network.listen({"0.0.0.0", 0}));
  for (const char* host : {"0.0.0.0", "::"}) {
    const auto refused = without.runtime().network.listen({host, 0});
    ASSERT_FALSE(refused) << host;
    EXPECT_EQ(refused.error().code(), Code::kInvalidArgument);
    EXPECT_THAT(refused.error().message(),
                ::testing::HasSubstr("set tls.certificate, tls.key and tls.authority"));
  }
  for (const char* host : {"127.0.0.1", "127.5.5.5", "::1", "::ffff:127.0.0.1"})
    EXPECT_TRUE(is_loopback(host)) << host;
  for (const char* host : {"0.0.0.0", "::", "10.0.0.1", "localhost", "::ffff:10.0.0.1", ""})
    EXPECT_FALSE(is_loopback(host)) << host;
}

}  // namespace
}  // namespace kintsugi::runtime
