// The handshake while one secret of the cluster follows another: every two processes that share a secret understand each other.
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include <stdlib.h>
#include <sys/stat.h>

#include "common/proto/token.pb.h"
#include "common/rpc/handshake.h"
#include "common/rpc/secret_uses.h"
#include "common/rpc/token.h"
#include "tests/common/rpc_rig.h"

namespace kintsugi::rpc {
namespace {

using Other = SecretKeys::Other;

SecretKey key(int n) {
  return test_secret(n).keys()->own;
}

Secret two(int own, Other other_is, int other) {
  return Secret::with({.own = key(own), .other_is = other_is, .other = key(other)});
}

/// All that a process may have while 2 follows 1, in order.
std::vector<Secret> all_states() {
  return {test_secret(1), two(1, Other::kNext, 2), two(2, Other::kFormer, 1), test_secret(2)};
}

bool share_one(const Secret& a, const Secret& b) {
  return std::ranges::any_of(a.each(), [&b](const Secret& one) { return b.accepts(one.id()); });
}

/// Body gets a runtime on real sockets.
template <class Body>
void run_with_sockets(Body body) {
  runtime::ProductionRuntime production;
  runtime::run_on(production, body(production.runtime()));
}

asio::awaitable<Status> ping(Rig& rig, Client& client) {
  const proto::ErrorDetail request = text("x");
  proto::ErrorDetail response;
  co_return co_await client.call(Context{}, rig.at, Method::kPing, request, response);
}

TEST(RpcTwoSecrets, WhoeverSharesOneIsUnderstoodInBothDirections) {
  run_with_sockets([](runtime::Runtime runtime) -> asio::awaitable<void> {
    for (const Secret& of_server : all_states()) {
      for (const Secret& of_client : all_states()) {
        Rig rig(runtime, runtime, {}, {}, of_server, of_client);
        rig.start();
        const Status answer = co_await ping(rig, rig.client);
        EXPECT_EQ(answer.code(), share_one(of_server, of_client) ? Code::kOk : Code::kPermissionDenied)
            << secret_text(*of_server.keys()) << secret_text(*of_client.keys()) << answer;
        co_await rig.stop();
      }
    }
  });
}

std::vector<std::byte> hello_without_hint(std::byte nonce) {
  std::vector<std::byte> out(24, nonce);
  std::memcpy(out.data(), &kMagic, 4);
  std::memcpy(out.data() + 4, &kVersion, 2);
  out[6] = out[7] = std::byte{0};
  return out;
}

asio::awaitable<Status> send_bytes(runtime::Connection& connection, std::span<const std::byte> bytes) {
  asio::const_buffer buffer(bytes.data(), bytes.size());
  co_return co_await connection.write(std::span(&buffer, 1));
}

/// What a server answers to a client's hello: its own, and the proof.
asio::awaitable<std::vector<std::byte>> answer_to(Rig& rig, std::span<const std::byte> hello) {
  std::vector<std::byte> answer(56);
  auto connection = co_await rig.client_runtime.network.dial(rig.at, rig.client_runtime.clock.now() + 5s);
  if (!connection) co_return std::vector<std::byte>();
  const Status sent = co_await send_bytes(**connection, hello);
  const Status read = sent.ok() ? co_await (*connection)->read_exact(answer) : sent;
  if (!read.ok()) answer.clear();
  (*connection)->close();
  co_return answer;
}

bool is_proof_by(const Secret& secret, std::span<const std::byte> hello, std::span<const std::byte> answer) {
  std::vector<std::byte> message;
  for (const char c : std::string_view("server"))
    message.push_back(static_cast<std::byte>(c));
  message.insert(message.end(), hello.begin(), hello.end());
  message.insert(message.end(), answer.begin(), answer.begin() + 24);
  return equal(secret.mac("handshake", message), answer.subspan(24));
}

TEST(RpcTwoSecrets, AClientOfABuildBeforeHintsIsShownTheOlderOne) {
  run_with_sockets([](runtime::Runtime runtime) -> asio::awaitable<void> {
    for (const Secret& of_server : {two(1, Other::kNext, 2), two(2, Other::kFormer, 1)}) {
      Rig rig(runtime, runtime, {}, {}, of_server, test_secret(1));
      rig.start();
      const std::vector<std::byte> hello = hello_without_hint(std::byte{7});
      const std::vector<std::byte> answer = co_await answer_to(rig, hello);
      CO_ASSERT_TRUE(answer.size() == 56);
      EXPECT_TRUE(is_proof_by(test_secret(1), hello, answer));
      co_await rig.stop();
    }
  });
}

asio::awaitable<void> take_hellos(runtime::Listener& listener, std::vector<std::vector<std::byte>>& hellos) {
  while (auto connection = co_await listener.accept()) {
    std::vector<std::byte> hello(24);
    if ((co_await (*connection)->read_exact(hello)).ok()) hellos.push_back(std::move(hello));
    (*connection)->close();
  }
}

TEST(RpcTwoSecrets, AHelloSaysNothingTwice) {
  run_with_sockets([](runtime::Runtime runtime) -> asio::awaitable<void> {
    const auto listener = runtime.network.listen({"127.0.0.1", 0});
    CO_ASSERT_TRUE(listener);
    std::vector<std::vector<std::byte>> hellos;
    runtime::TaskGroup tasks(runtime);
    tasks.spawn(take_hellos(**listener, hellos));
    Client client(runtime, two(1, Other::kNext, 2));
    const proto::ErrorDetail request = text("x");
    proto::ErrorDetail response;
    for (int i = 0; i < 50; ++i)
      (void)co_await client.call(Context{}, (*listener)->local_endpoint(), Method::kPing, request, response);
    co_await client.stop();
    (*listener)->close();
    co_await tasks.join();
    std::set<std::vector<std::byte>> nonces, hints;
    for (const std::vector<std::byte>& hello : hellos) {
      nonces.insert({hello.begin() + 8, hello.end() - 4});
      hints.insert({hello.end() - 4, hello.end()});
    }
    CO_ASSERT_TRUE(hellos.size() == 50);
    EXPECT_EQ(nonces.size(), 50u);
    EXPECT_EQ(hints.size(), 50u);
  });
}

proto::TokenClaims claims(const runtime::Runtime& runtime, const Secret& signing) {
  proto::TokenClaims claims;
  claims.set_id(0xfeed);
  claims.set_name("backup");
  claims.set_role(proto::TokenClaims::READ);
  claims.set_issued_ns(runtime.clock.wall_now().time_since_epoch().count());
  claims.set_secret(signing.id());
  return claims;
}

TEST(RpcTwoSecrets, TokensOfEitherAreGoodUntilTheirsIsDropped) {
  LogCapture log;
  run_with_sockets([](runtime::Runtime runtime) -> asio::awaitable<void> {
    for (const Secret& of_server : all_states()) {
      for (const int signed_by : {1, 2}) {
        const Secret signing = test_secret(signed_by);
        const auto token = parse_token(token_text(signing, claims(runtime, signing).SerializeAsString()));
        CO_ASSERT_TRUE(token);
        Rig rig(runtime, runtime, {}, {}, of_server, *token);
        rig.server.refuse_tokens({});
        rig.start();
        const Status answer = co_await ping(rig, rig.client);
        EXPECT_EQ(answer.ok(), of_server.accepts(signing.id())) << signed_by << answer;
        if (!answer.ok())
          EXPECT_NE(answer.message().find("or the secret that signed it was dropped"), std::string::npos)
              << answer;
        co_await rig.stop();
      }
    }
  });
}

TEST(RpcTwoSecrets, AServerSaysWhoUsesTheFormerOneOrATokenThatItSigned) {
  run_with_sockets([](runtime::Runtime runtime) -> asio::awaitable<void> {
    const Secret former = test_secret(1), newer = test_secret(2);
    const auto token = parse_token(token_text(former, claims(runtime, former).SerializeAsString()));
    CO_ASSERT_TRUE(token);
    Rig rig(runtime, runtime, {}, {}, two(2, Other::kFormer, 1), newer);
    rig.server.refuse_tokens({});
    rig.start();
    Client daemon(runtime, former), other(runtime, former), holder(runtime, *token);
    for (Client* const client : {&daemon, &other, &holder})
      CO_ASSERT_OK(co_await ping(rig, *client));
    proto::SecretStatusResponse status;
    const proto::Empty request;
    const auto ask = [&]() -> asio::awaitable<Status> {
      return rig.client.call(Context{}, rig.at, Method::kSecretStatus, request, status);
    };
    CO_ASSERT_OK(co_await ask());
    CO_ASSERT_TRUE(status.uses_size() == 2);
    std::map<std::string, uint32_t> users;
    for (const proto::SecretUse& use : status.uses()) {
      EXPECT_EQ(use.secret(), former.id());
      EXPECT_LT(use.idle_seconds(), 60);
      users[use.who()] = use.connections();
    }
    EXPECT_EQ(users, (std::map<std::string, uint32_t>{{"the secret at 127.0.0.1", 2},
                                                      {"the token backup at 127.0.0.1", 1}}));
    for (Client* const client : {&daemon, &other, &holder})
      co_await client->stop();
    // The server hears a moment later that they have gone.
    for (int i = 0; i < 100 && status.uses_size() > 0; ++i)
      CO_ASSERT_OK(co_await ask());
    EXPECT_EQ(status.uses_size(), 0);
    co_await rig.stop();
  });
}

TEST(RpcTwoSecrets, WhoeverAsksWithATokenThatEndedIsNoUserOfTheFormerOne) {
  run_with_sockets([](runtime::Runtime runtime) -> asio::awaitable<void> {
    const Secret former = test_secret(1), newer = test_secret(2);
    const proto::TokenClaims made = claims(runtime, former);
    const auto token = parse_token(token_text(former, made.SerializeAsString()));
    CO_ASSERT_TRUE(token);
    Rig rig(runtime, runtime, {}, {}, two(2, Other::kFormer, 1), newer);
    rig.server.refuse_tokens({});
    rig.start();
    Client holder(runtime, *token);
    proto::SecretStatusResponse status;
    const proto::Empty request;
    const auto users = [&]() -> asio::awaitable<int> {
      KINTSUGI_EXPECT_OK(co_await rig.client.call(Context{}, rig.at, Method::kSecretStatus, request, status));
      co_return status.uses_size();
    };
    CO_ASSERT_OK(co_await ping(rig, holder));
    EXPECT_EQ(co_await users(), 1);
    // A mount goes on to ask over the connection that it has. To drop the secret takes nothing from it any more.
    rig.server.refuse_tokens({made.id()});
    EXPECT_EQ((co_await ping(rig, holder)).code(), Code::kPermissionDenied);
    EXPECT_EQ(co_await users(), 0);
    EXPECT_EQ((co_await ping(rig, holder)).code(), Code::kPermissionDenied);
    EXPECT_EQ(co_await users(), 0);
    co_await holder.stop();
    co_await rig.stop();
  });
}

TEST(RpcTwoSecrets, OfManyUsersThoseAreToldWhoCameLatest) {
  const auto uses = std::make_shared<SecretUses>();
  const Principal by{.secret = 1}, with_the_new_one{.secret = 2};
  const TimePoint begin{};
  std::vector<std::shared_ptr<SecretUses::Connection>> connections{
      uses->opened(with_the_new_one, "10.0.0.1:1", begin)};
  for (int i = 0; i < SecretUses::kMostTold + 5; ++i)
    connections.push_back(uses->opened(by, fmt::format("10.1.0.{}:1", i), begin));
  connections.push_back(uses->opened(by, "10.1.0.3:2", begin));
  connections.back()->used(begin + 40s);
  proto::SecretStatusResponse status;
  uses->tell(/*in_use=*/2, begin + 60s, status);
  ASSERT_EQ(status.uses_size(), SecretUses::kMostTold);
  EXPECT_EQ(status.uses(0).who(), "the secret at 10.1.0.3");
  EXPECT_EQ(status.uses(0).connections(), 2u);
  EXPECT_EQ(status.uses(0).idle_seconds(), 20);
  EXPECT_EQ(status.uses(1).idle_seconds(), 60);
}

class RotatedFiles : public ::testing::Test {
 protected:
  RotatedFiles() {
    char name[] = "/tmp/kintsugi_rotated_XXXXXX";
    directory_ = ::mkdtemp(name);
  }
  ~RotatedFiles() override { std::filesystem::remove_all(directory_); }

  std::string write(const std::string& name, const Secret& secret) const {
    const std::string path = directory_ + "/" + name;
    std::filesystem::remove(path);
    std::ofstream(path) << secret_text(*secret.keys());
    EXPECT_EQ(::chmod(path.c_str(), 0600), 0);
    return path;
  }

  std::string directory_;
};

TEST_F(RotatedFiles, AClientWhoseFileChangesProvesItselfAnewAndNoCallFails) {
  run_with_sockets([this](runtime::Runtime runtime) -> asio::awaitable<void> {
    const auto of_server = Secret::load(write("server", test_secret(1)));
    const auto of_client = Secret::load(write("client", test_secret(1)));
    CO_ASSERT_TRUE(of_server && of_client);
    Rig rig(runtime, runtime, {}, {}, *of_server, *of_client);
    rig.start();
    CO_ASSERT_OK(co_await ping(rig, rig.client));
    for (const Secret& state : {two(1, Other::kNext, 2), two(2, Other::kFormer, 1), test_secret(2)}) {
      for (const char* name : {"server", "client"}) {
        write(name, state);
        (name == std::string("server") ? *of_server : *of_client).shared().look_at_once();
        CO_ASSERT_OK(co_await ping(rig, rig.client));
      }
    }
    co_await rig.stop();
  });
}

TEST_F(RotatedFiles, AConnectionEndsWhenTheSecretThatItWasProvenWithIsDropped) {
  LogCapture log;
  run_with_sockets([this](runtime::Runtime runtime) -> asio::awaitable<void> {
    const auto of_server = Secret::load(write("server", two(2, Other::kFormer, 1)));
    CO_ASSERT_TRUE(of_server);
    Rig rig(runtime, runtime, {}, {}, *of_server, test_secret(1));
    rig.start();
    CO_ASSERT_OK(co_await ping(rig, rig.client));
    Client newer(runtime, test_secret(2));
    CO_ASSERT_OK(co_await ping(rig, newer));
    write("server", test_secret(2));
    of_server->shared().look_at_once();
    EXPECT_EQ((co_await ping(rig, rig.client)).code(), Code::kUnavailable);
    KINTSUGI_EXPECT_OK(co_await ping(rig, newer));
    co_await newer.stop();
    co_await rig.stop();
  });
}

}  // namespace
}  // namespace kintsugi::rpc
