// Tokens: who has one may do what it says until it ends, nobody can make or change one without the secret, and each that is refused is
// told why in one line.
#include <filesystem>
#include <fstream>
#include <set>

#include <sys/stat.h>

#include "common/proto/token.pb.h"
#include "common/proto/trace.pb.h"
#include "common/rpc/handshake.h"
#include "common/rpc/refused_tokens.h"
#include "common/rpc/rights.h"
#include "common/rpc/token.h"
#include "tests/common/rpc_rig.h"

namespace kintsugi::rpc {
namespace {

using proto::TokenClaims;

int64_t ns_of(WallTime time) {
  return time.time_since_epoch().count();
}

TokenClaims claims(TokenClaims::Role role, WallTime issued, Duration life = std::chrono::hours(1)) {
  TokenClaims claims;
  claims.set_id(0xfeed);
  claims.set_name("backup");
  claims.set_role(role);
  claims.set_issued_ns(ns_of(issued));
  claims.set_expires_ns(ns_of(issued + life));
  return claims;
}

const WallTime kNow{std::chrono::hours(24 * 365 * 55)};

Secret token_of(const TokenClaims& claims, const Secret& cluster = test_secret()) {
  const Result<Secret> parsed = parse_token(token_text(cluster, claims.SerializeAsString()));
  EXPECT_TRUE(parsed) << parsed.error();
  return parsed ? *parsed : Secret{};
}

/// What a server, which knows the secret, computes for the claims that it is shown.
bool is_believed(const Secret& token) {
  const auto message = std::as_bytes(std::span(std::string_view("nonces")));
  const Secret expected = token_key(test_secret(), token.claims());
  return equal(expected.mac("handshake", message), token.mac("handshake", message));
}

TEST(Token, SaysWhatItWasMadeFor) {
  TokenClaims made = claims(TokenClaims::WRITE, kNow);
  made.set_path("/projects/one");
  made.set_squash(true);
  made.set_squash_uid(1000);
  made.set_squash_gid(100);
  const Secret token = token_of(made);
  EXPECT_TRUE(is_believed(token));
  const Result<Principal> holder = principal_of(token.claims());
  ASSERT_TRUE(holder) << holder.error();
  EXPECT_EQ(holder->role, Role::kWrite);
  EXPECT_EQ(holder->id, 0xfeedu);
  EXPECT_EQ(holder->name, "backup");
  EXPECT_EQ(holder->path, "/projects/one");
  EXPECT_EQ(holder->expires, kNow + std::chrono::hours(1));
  ASSERT_TRUE(holder->squash);
  EXPECT_EQ(holder->squash->uid, 1000u);
  EXPECT_EQ(holder->squash->gid, 100u);
}

TEST(Token, ATextOfWhichOneCharacterWasChangedIsBelievedNowhere) {
  const std::string text = token_text(test_secret(), claims(TokenClaims::READ, kNow).SerializeAsString());
  for (size_t at = 0; at < text.size(); ++at) {
    for (const char other : {'0', '7', 'e', ':', '\n', '\0'}) {
      std::string changed = text;
      if (changed[at] == other) continue;
      changed[at] = other;
      const Result<Secret> token = parse_token(changed);
      if (token) EXPECT_FALSE(is_believed(*token)) << at << " " << changed;
    }
  }
}

TEST(Token, ATextThatWasCutOrContinuedIsRefused) {
  const std::string text = token_text(test_secret(), claims(TokenClaims::READ, kNow).SerializeAsString());
  for (size_t size = 0; size < text.size(); ++size)
    EXPECT_EQ(parse_token(text.substr(0, size)).error().code(), Code::kInvalidArgument) << size;
  EXPECT_FALSE(parse_token(text + "0"));
  EXPECT_FALSE(parse_token(text + text));
  EXPECT_TRUE(parse_token(text + "\n"));
}

TEST(Token, ClaimsThatGrantMoreAreBelievedNowhere) {
  const Secret token = token_of(claims(TokenClaims::READ, kNow));
  std::array<std::byte, 32>
      key;  // unknown to whoever holds the token's file, as far as the secret is: guessed here
  key.fill(std::byte{0});
  EXPECT_FALSE(is_believed(Secret(key, claims(TokenClaims::ADMIN, kNow).SerializeAsString())));
  EXPECT_FALSE(is_believed(token_of(claims(TokenClaims::ADMIN, kNow), test_secret(2))))
      << "another cluster's";
}

TEST(Token, IsGoodFromWhenItWasMadeUntilItExpires) {
  const Result<Principal> holder = principal_of(claims(TokenClaims::READ, kNow).SerializeAsString());
  ASSERT_TRUE(holder);
  EXPECT_TRUE(check_time(*holder, kNow).ok());
  EXPECT_TRUE(check_time(*holder, kNow - std::chrono::minutes(4)).ok());
  EXPECT_TRUE(check_time(*holder, kNow + std::chrono::hours(1) - 1ns).ok());
  const Status late = check_time(*holder, kNow + std::chrono::hours(1));
  EXPECT_EQ(late.code(), Code::kPermissionDenied);
  EXPECT_NE(late.message().find("backup expired at"), std::string::npos) << late;
  const Status early = check_time(*holder, kNow - std::chrono::hours(24 * 365));
  EXPECT_EQ(early.code(), Code::kPermissionDenied);
  EXPECT_NE(early.message().find("the clock of the server says"), std::string::npos) << early;
}

TEST(Token, NamesAndPathsThatMeanNothingAreRefused) {
  const auto refused = [](auto change) {
    TokenClaims made = claims(TokenClaims::WRITE, kNow);
    change(made);
    return !check_claims(made).ok() && !principal_of(made.SerializeAsString());
  };
  for (const std::string& name : {std::string(), std::string("two words"), std::string("line\nbreak"),
                                  std::string(65, 'a'), std::string("\x80")})
    EXPECT_TRUE(refused([&](TokenClaims& made) { made.set_name(name); })) << name;
  for (const char* path : {"/", "relative", "/a/", "/a//b", "/a/../b", "/./a"})
    EXPECT_TRUE(refused([&](TokenClaims& made) { made.set_path(path); })) << path;
  EXPECT_TRUE(refused([](TokenClaims& made) { made.set_role(TokenClaims::NONE); }));
  EXPECT_TRUE(refused([](TokenClaims& made) {
    made.set_role(TokenClaims::ADMIN);
    made.set_path("/a");
  }));
}

TEST(Token, RootAndItsGroupAreSquashed) {
  proto::Caller root;
  root.add_groups(5);
  squash({65534, 65533}, root);
  EXPECT_EQ(root.uid(), 65534u);
  EXPECT_EQ(root.gid(), 65533u);
  EXPECT_EQ(root.groups_size(), 0);
  proto::Caller user;
  user.set_uid(1000);
  user.add_groups(0);
  user.add_groups(7);
  squash({65534, 65533}, user);
  EXPECT_EQ(user.uid(), 1000u);
  EXPECT_EQ(user.gid(), 65533u);
  ASSERT_EQ(user.groups_size(), 1);
  EXPECT_EQ(user.groups(0), 7u);
}

TEST(Token, ItsFileIsReadByItsOwnerAloneAndIsNoSecret) {
  char name[] = "/tmp/kintsugi_token_XXXXXX";
  const std::string directory = ::mkdtemp(name);
  const std::string path = directory + "/token";
  const auto write = [&](const std::string& text, mode_t mode) {
    std::ofstream(path) << text;
    ::chmod(path.c_str(), mode);
  };
  const std::string text = token_text(test_secret(), claims(TokenClaims::READ, kNow).SerializeAsString());
  write(text + "\n", 0600);
  EXPECT_TRUE(load_token(path));
  const Status as_secret = Secret::load(path).error();
  EXPECT_NE(as_secret.message().find("holds a token"), std::string::npos) << as_secret;
  write("garbage", 0600);
  EXPECT_NE(load_token(path).error().message().find("is not a token"), std::string::npos);
  write(std::string(64, 'a') + "\n", 0600);
  EXPECT_EQ(load_token(path).error().code(), Code::kInvalidArgument) << "the secret is no token";
  write(text, 0640);
  EXPECT_EQ(load_token(path).error().code(), Code::kPermissionDenied);
  std::filesystem::remove_all(directory);
}

// ---- the table

TEST(Rights, TheseAdministerAndNothingElse) {
  std::set<std::string_view> administering;
  for (size_t i = 0; i < kMethods; ++i) {
    const auto method = static_cast<Method>(i);
    if (method_named(method_name(method)) == method && right_of(method) == Right::kAdminister)
      administering.insert(method_name(method));
  }
  EXPECT_EQ(administering,
            (std::set<std::string_view>{"AcceptMetadata", "ChangeFaults", "ChangeQuarantine", "CreateToken",
                                        "DrainServer", "Finalize", "LimitRepairs", "MaintainServer",
                                        "RemoveServer", "RevokeToken", "RunRepair", "SetQuota", "Trace"}));
}

TEST(Rights, EachRoleHasThoseOfTheOneBeforeIt) {
  EXPECT_EQ(highest_right(Role::kRead), Right::kRead);
  EXPECT_EQ(highest_right(Role::kWrite), Right::kWrite);
  EXPECT_EQ(highest_right(Role::kAdmin), Right::kAdminister);
  EXPECT_EQ(highest_right(Role::kDaemon), Right::kServe);
  Principal admin{.role = Role::kAdmin, .name = "boss"};
  EXPECT_TRUE(check_right(admin, Method::kStat).ok());
  EXPECT_TRUE(check_right(admin, Method::kDrainServer).ok());
  EXPECT_EQ(check_right(admin, Method::kHeartbeat).code(), Code::kPermissionDenied);
}

// ---- connections

/// A client that has a token, beside the one of the rig that has the secret.
asio::awaitable<Status> ask(Rig& rig, const Secret& token, Method method = Method::kPing) {
  Client client(rig.client_runtime, token);
  const proto::ErrorDetail request = text("hello");
  proto::ErrorDetail response;
  const Status asked = co_await client.call(Context{}.with_deadline(rig.client_runtime.clock.now() + 5s),
                                            rig.at, method, request, response);
  co_await client.stop();
  co_return asked;
}

WallTime now(Rig& rig) {
  return rig.server_runtime.clock.wall_now();
}

TEST(RpcToken, ItsHolderIsServedAndAReaderMayNotInspect) {
  LogCapture log;
  run_on_loopback([](Rig& rig) -> asio::awaitable<void> {
    rig.server.refuse_tokens({});
    const Secret token = token_of(claims(TokenClaims::READ, now(rig)));
    CO_ASSERT_OK(co_await ask(rig, token));
    const Status refused = co_await ask(rig, token, Method::kFsck);
    EXPECT_EQ(refused.code(), Code::kPermissionDenied);
    EXPECT_EQ(refused.message(),
              "Fsck needs the right to inspect the cluster, which the token backup does not give: its role "
              "is read, and "
              "this takes admin");
    Client client(rig.client_runtime, token);
    proto::Empty empty;
    auto stream = co_await client.open_stream(Context{}, rig.at, Method::kWriteChunk, empty);
    CO_ASSERT_TRUE(stream);
    proto::ErrorDetail header;
    const auto received = co_await (*stream)->receive(header);
    EXPECT_TRUE(!received && received.error().code() == Code::kPermissionDenied);
    EXPECT_EQ(rig.streams_served, 0u);
    co_await client.stop();
  });
}

TEST(RpcToken, OfAnotherClusterIsToldSo) {
  LogCapture log;
  run_on_loopback([](Rig& rig) -> asio::awaitable<void> {
    rig.server.refuse_tokens({});
    const Status refused = co_await ask(rig, token_of(claims(TokenClaims::ADMIN, now(rig)), test_secret(2)));
    EXPECT_EQ(refused.code(), Code::kPermissionDenied);
    EXPECT_NE(refused.message().find("the token backup is not of this cluster"), std::string::npos)
        << refused;
    CO_ASSERT_OK(co_await rig.ping_is_echoed());
  });
  EXPECT_EQ(log.count("the token backup is not of this cluster"), 1u);
}

TEST(RpcToken, EndsOnAnOpenConnectionWhenItExpires) {
  run_simulated([](Rig& rig, simulation::Simulation&) -> asio::awaitable<void> {
    rig.server.refuse_tokens({});
    runtime::TaskGroup tasks(rig.client_runtime);
    const Secret token = token_of(claims(TokenClaims::READ, now(rig), 10s));
    Client client(rig.client_runtime, token);
    const proto::ErrorDetail request = text("x");
    proto::ErrorDetail response;
    CO_ASSERT_OK(co_await client.call(Context{}, rig.at, Method::kPing, request, response));
    co_await tasks.sleep_for(9s);
    CO_ASSERT_OK(co_await client.call(Context{}, rig.at, Method::kPing, request, response));
    co_await tasks.sleep_for(2s);
    const Status open = co_await client.call(Context{}, rig.at, Method::kPing, request, response);
    EXPECT_EQ(open.code(), Code::kPermissionDenied);
    EXPECT_NE(open.message().find("expired at"), std::string::npos) << open;
    const Status anew = co_await ask(rig, token);
    EXPECT_EQ(anew.code(), Code::kPermissionDenied);
    EXPECT_NE(anew.message().find("the token backup expired at"), std::string::npos) << anew;
    co_await client.stop();
    co_await tasks.join();
  });
}

TEST(RpcToken, EndsOnAnOpenConnectionWhenItIsRevoked) {
  run_on_loopback([](Rig& rig) -> asio::awaitable<void> {
    const Secret token = token_of(claims(TokenClaims::READ, now(rig)));
    const Status unknown = co_await ask(rig, token);
    EXPECT_EQ(unknown.code(), Code::kUnavailable)
        << "the server has not heard which are revoked: " << unknown;
    rig.server.refuse_tokens({1, 2});
    Client client(rig.client_runtime, token);
    const proto::ErrorDetail request = text("x");
    proto::ErrorDetail response;
    CO_ASSERT_OK(co_await client.call(Context{}, rig.at, Method::kPing, request, response));
    rig.server.refuse_tokens({1, 2, 0xfeed});
    const Status open = co_await client.call(Context{}, rig.at, Method::kPing, request, response);
    EXPECT_EQ(open.code(), Code::kPermissionDenied);
    EXPECT_EQ(open.message(), "the token backup is revoked");
    const Status anew = co_await ask(rig, token);
    EXPECT_EQ(anew.code(), Code::kPermissionDenied);
    EXPECT_NE(anew.message().find("the token backup is revoked"), std::string::npos) << anew;
    co_await client.stop();
    CO_ASSERT_OK(co_await rig.ping_is_echoed());
  });
}

TEST(RpcToken, AdministrationIsToldInOneLineAlsoWhenItIsRefused) {
  LogCapture log;
  run_on_loopback([](Rig& rig) -> asio::awaitable<void> {
    Server server(rig.server_runtime, test_secret(), nullptr);
    server.handle(Method::kRevokeToken,
                  [](Context, const proto::RevokeTokenRequest&,
                     proto::RevokeTokenResponse&) -> asio::awaitable<Status> { co_return Status{}; });
    server.handle(Method::kTrace,
                  [](Context, const proto::TraceRequest&, proto::TraceResponse&) -> asio::awaitable<Status> {
                    co_return Status{};
                  });
    server.refuse_tokens({});
    CO_ASSERT_OK(server.start({"127.0.0.1", 0}));
    proto::RevokeTokenRequest request;
    request.set_name("x\n2026-01-01 00:00:00.000 I the secret from 10.0.0.1: nothing happened");
    proto::RevokeTokenResponse response;
    CO_ASSERT_OK(co_await rig.client.call(Context{}, server.local_endpoint(), Method::kRevokeToken, request,
                                          response));
    Client reader(rig.client_runtime, token_of(claims(TokenClaims::READ, now(rig))));
    EXPECT_EQ(
        (co_await reader.call(Context{}, server.local_endpoint(), Method::kRevokeToken, request, response))
            .code(),
        Code::kPermissionDenied);
    for (int i = 0; i < 300; ++i)
      (void)co_await reader.call(Context{}, server.local_endpoint(), Method::kRevokeToken, request, response);
    CO_ASSERT_OK(co_await rig.client.call(Context{}, server.local_endpoint(), Method::kRevokeToken, request,
                                          response));
    proto::TraceRequest status;
    proto::TraceResponse traced;
    CO_ASSERT_OK(
        co_await rig.client.call(Context{}, server.local_endpoint(), Method::kTrace, status, traced));
    co_await reader.stop();
    co_await server.stop();
  });
  EXPECT_EQ(log.count("audit: the secret from 127.0.0.1"), 2u);
  const size_t refused = log.count("audit: token backup (000000000000feed) from 127.0.0.1");
  EXPECT_GE(refused, 1u);
  EXPECT_LE(refused, 120u) << "whoever is refused does not fill the file";
  EXPECT_EQ(log.count("audit: "), 2 + refused) << "to look at the state of a trace is no administration";
  for (const std::string& line : log.lines())
    EXPECT_EQ(line.find('\n'), std::string::npos) << line;
}

}  // namespace
}  // namespace kintsugi::rpc
