// Hosts of a cluster call one another over TLS, and whoever is refused is told why.
#include <gmock/gmock.h>

#include "common/runtime/tls/tls_connection.h"
#include "tests/common/tls_rig.h"

namespace kintsugi::runtime {
namespace {

/// A client and a server say this of one call between them.
struct Said {
  Status client;
  std::vector<std::string> server;
};

/// The server's wall clock is ahead by `server_clock`.
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
  // That holds, too, when both authorities have one name, as those of two `cluster init` have.
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
