#include "common/daemon/page_tokens.h"

#include <gmock/gmock.h>

#include "common/proto/token.pb.h"
#include "tests/expect_ok.h"

namespace kintsugi::daemon {
namespace {

using ::testing::HasSubstr;

rpc::Secret secret_of(std::byte first) {
  std::array<std::byte, 32> key{};
  key[0] = first;
  return rpc::Secret(key);
}

std::string token_with(const rpc::Secret& cluster, proto::TokenClaims::Role role) {
  proto::TokenClaims claims;
  claims.set_id(7);
  claims.set_name("dash");
  claims.set_role(role);
  claims.set_issued_ns(1);
  claims.set_expires_ns(2'000'000'000);
  return rpc::token_text(cluster, claims.SerializeAsString());
}

TEST(PageTokens, AreShownAsBearersOrAsPasswords) {
  EXPECT_EQ(token_of("Bearer kintsugi:1"), "kintsugi:1");
  EXPECT_EQ(token_of("Basic YW55OmE6Yg=="), "a:b") << "any:a:b: the name ends at the first colon";
  EXPECT_EQ(token_of("basic OnQ="), "t") << "names of schemes are in either case";
  for (const char* none : {"", "Bearer", "Digest x", "Basic ", "Basic ====", "Basic YW55", "Basic YW55O"})
    EXPECT_EQ(token_of(none), std::nullopt) << none;
  EXPECT_EQ(token_of("Basic " + std::string(100'000, 'A')), std::nullopt);
}

TEST(PageTokens, OnlyThoseOfTheClusterAreBelieved) {
  const rpc::Secret cluster = secret_of(std::byte{1}), other = secret_of(std::byte{2});
  const std::string token = token_with(cluster, proto::TokenClaims::ADMIN);
  const auto reader = reader_of(cluster, token + "\n");
  ASSERT_TRUE(reader) << reader.error();
  EXPECT_EQ(reader->name, "dash");
  EXPECT_EQ(reader_of(cluster, token_with(other, proto::TokenClaims::ADMIN)).error().code(),
            Code::kPermissionDenied);
  // Claims of one token under the key of another.
  const std::string reads = token_with(cluster, proto::TokenClaims::READ);
  const std::string forged = token.substr(0, token.rfind(':')) + reads.substr(reads.rfind(':'));
  EXPECT_FALSE(reader_of(cluster, forged));
  for (size_t at = 0; at < token.size(); ++at) {
    std::string changed = token;
    changed[at] = changed[at] == '0' ? '1' : '0';
    EXPECT_FALSE(reader_of(cluster, changed)) << at;
    EXPECT_FALSE(reader_of(cluster, token.substr(0, at))) << at;
  }
}

TEST(PageTokens, ReadersSeeMetricsAndAdministratorsAllPages) {
  rpc::Principal reader{.role = rpc::Role::kRead, .id = 7, .name = "dash"}, boss = reader;
  boss.role = rpc::Role::kAdmin;
  for (const char* page : {"/metrics", "/sd", "/healthz", "/debug/clock"})
    KINTSUGI_EXPECT_OK(check_page(reader, page));
  for (const char* page : {"/", "/debug/live", "/debug/settings", "/api/state", "/metrics/", "//metrics"}) {
    const Status refused = check_page(reader, page);
    EXPECT_EQ(refused.code(), Code::kPermissionDenied) << page;
    EXPECT_THAT(refused.message(), HasSubstr("the token dash has the role read"));
    KINTSUGI_EXPECT_OK(check_page(boss, page));
  }
  reader.path = "/projects";
  EXPECT_FALSE(check_page(reader, "/metrics").ok());
}

}  // namespace
}  // namespace kintsugi::daemon
