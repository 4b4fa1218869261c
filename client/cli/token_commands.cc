// token create, list, revoke.
#include <charconv>

#include "client/cli/commands.h"
#include "client/cli/format.h"
#include "client/cli/json.h"
#include "client/cli/long_time.h"
#include "client/cli/printable.h"
#include "client/cli/session.h"
#include "common/proto/token.pb.h"
#include "common/rpc/private_file.h"
#include "common/rpc/token.h"

namespace kintsugi::cli {
namespace {

using client::BlockingClient;
using proto::TokenClaims;

constexpr uint32_t kNobody = 65534;
constexpr std::string_view kNever = "never";

struct TokenArguments {
  std::string name, path, out;
  std::string expires = "90d";
  std::string squash;
  TokenClaims::Role role = TokenClaims::NONE;
  bool no_squash = false;
};

std::string_view role_name(TokenClaims::Role role) {
  switch (role) {
    case TokenClaims::READ: return "read";
    case TokenClaims::WRITE: return "write";
    case TokenClaims::ADMIN: return "admin";
    default: return "unknown";
  }
}

/// "1000:100"; empty: nobody.
Status read_squash(const std::string& text, TokenClaims& claims) {
  uint32_t uid = kNobody, gid = kNobody;
  if (!text.empty()) {
    const char* end = text.data() + text.size();
    const auto first = std::from_chars(text.data(), end, uid);
    const bool colon = first.ec == std::errc() && first.ptr != end && *first.ptr == ':';
    const auto second = colon ? std::from_chars(first.ptr + 1, end, gid) : first;
    if (!colon || second.ec != std::errc() || second.ptr != end || uid == 0)
      return {Code::kInvalidArgument,
              fmt::format("--squash {} is not UID:GID, the numbers of a user that is not root and a group",
                          text)};
  }
  claims.set_squash(true);
  claims.set_squash_uid(uid);
  claims.set_squash_gid(gid);
  return {};
}

Json json_of(const TokenClaims& claims) {
  Json json{{"name", claims.name()},
            {"id", fmt::format("{:016x}", claims.id())},
            {"role", role_name(claims.role())},
            {"path", claims.path().empty() ? "/" : claims.path()},
            {"squash", claims.squash()},
            {"issued_ns", claims.issued_ns()},
            {"expires_ns", claims.expires_ns()}};
  if (claims.squash())
    json.append({{"squash_uid", claims.squash_uid()}, {"squash_gid", claims.squash_gid()}});
  return json;
}

Status create_token(Session& session, BlockingClient& client, const TokenArguments& arguments) {
  proto::CreateTokenRequest request;
  TokenClaims& claims = *request.mutable_claims();
  claims.set_name(arguments.name);
  claims.set_role(arguments.role);
  if (arguments.path != "/") claims.set_path(arguments.path);
  if (!arguments.no_squash) KINTSUGI_TRY(read_squash(arguments.squash, claims));
  KINTSUGI_TRY(rpc::check_claims(claims));
  if (arguments.expires != kNever) {
    KINTSUGI_ASSIGN(const Duration lifetime, parse_long_time(arguments.expires));
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(lifetime).count();
    if (seconds <= 0) return {Code::kInvalidArgument, "a token lives for some time, or has --expires never"};
    request.set_lifetime_seconds(static_cast<uint64_t>(seconds));
  }
  if (!arguments.out.empty()) KINTSUGI_TRY(rpc::check_new_private_file(arguments.out, "token file"));
  KINTSUGI_ASSIGN(const proto::CreateTokenResponse made, client.run(client.async().create_token(request)));
  if (!arguments.out.empty()) {
    const Status written = rpc::write_private_file(arguments.out, "token file", made.token() + "\n");
    if (!written.ok()) {
      // Nobody will ever have it.
      (void)client.run(client.async().revoke_token(arguments.name));
      return written;
    }
  }
  if (session.json) {
    Json json = json_of(made.claims());
    if (arguments.out.empty()) json.append({{"token", made.token()}});
    print_json(json);
  } else if (arguments.out.empty()) {
    fmt::print("{}\n", made.token());
  } else {
    fmt::print("{} holds the token {}: {}\n", shown_name(arguments.out), arguments.name,
               made.claims().expires_ns() == 0 ? "it never expires"
                                               : "it expires at " + local_time(made.claims().expires_ns()));
  }
  return {};
}

std::string_view state_of(const proto::StoredToken& token) {
  if (token.revoked_ns() != 0) return "revoked";
  const int64_t now = std::chrono::system_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
  const bool over = token.claims().expires_ns() != 0 && token.claims().expires_ns() <= now;
  return over ? "expired" : "usable";
}

void print_line(const proto::StoredToken& token) {
  const TokenClaims& claims = token.claims();
  const std::string root =
      claims.squash() ? fmt::format("{}:{}", claims.squash_uid(), claims.squash_gid()) : "root";
  fmt::print("{:<20} {:<6} {:<8} {:<12} {:<20} {}\n", claims.name(), role_name(claims.role()),
             state_of(token), root,
             claims.expires_ns() == 0 ? std::string(kNever) : local_time(claims.expires_ns()),
             claims.path().empty() ? "/" : shown_name(claims.path()));
}

Status list_tokens(Session& session, BlockingClient& client) {
  Json tokens = Json::array();
  uint64_t after = 0;
  if (!session.json)
    fmt::print("{:<20} {:<6} {:<8} {:<12} {:<20} {}\n", "NAME", "ROLE", "STATE", "ROOT IS", "EXPIRES",
               "PATH");
  while (true) {
    KINTSUGI_ASSIGN(const proto::ListTokensResponse page, client.run(client.async().list_tokens(after)));
    for (const proto::StoredToken& token : page.tokens()) {
      after = token.claims().id();
      Json json = json_of(token.claims());
      json.append({{"state", state_of(token)}, {"revoked_ns", token.revoked_ns()}});
      if (session.json)
        tokens.push_back(std::move(json));
      else
        print_line(token);
    }
    if (!page.more() || page.tokens().empty()) break;
  }
  if (session.json) print_json({{"tokens", std::move(tokens)}});
  return {};
}

Status revoke_token(Session& session, BlockingClient& client, const TokenArguments& arguments) {
  KINTSUGI_ASSIGN(const proto::RevokeTokenResponse answer,
                  client.run(client.async().revoke_token(arguments.name)));
  if (session.json)
    print_json(json_of(answer.claims()));
  else
    fmt::print(
        "The metaserver refuses the token {} from now on, and the other daemons within a few seconds.\n",
        answer.claims().name());
  return {};
}

}  // namespace

std::vector<Command> token_commands() {
  const auto a = std::make_shared<TokenArguments>();
  const Option name{"NAME", &a->name, "Name of the token", kRequired};
  const std::vector<TokenClaims::Role> roles{TokenClaims::ADMIN, TokenClaims::WRITE, TokenClaims::READ};
  return {{.name = "token",
           .help = "Tokens: what people and applications have in place of the cluster's secret",
           .commands = {
               {.name = "create",
                .help = "Make a token and print it; it is not shown again",
                .options = {name,
                            {"--role", one_of(&a->role, roles, role_name),
                             "What it allows: all of administration, to write, or only to read", kRequired},
                            {"--path", &a->path, "Only for what lies there and below; default: everything"},
                            {"--expires", &a->expires,
                             "How long it is good: 30d, 12h, 2w, or never; default: 90d"},
                            {"--squash", &a->squash,
                             "UID:GID that root of its hosts counts as; default: 65534:65534"},
                            {"--no-squash", &a->no_squash, "Root of its hosts is root in the cluster",
                             kOptional, 0, std::numeric_limits<uint64_t>::max(), 1, "--squash"},
                            {"--out", &a->out, "Write it to a new file that only its owner can read"}},
                .prints_json = true,
                .run = connected(a, create_token)},
               {.name = "list",
                .help = "List all tokens, without their keys",
                .prints_json = true,
                .run = connected(list_tokens)},
               {.name = "revoke",
                .help = "Revoke a token: all daemons refuse it",
                .options = {name},
                .prints_json = true,
                .run = connected(a, revoke_token)}}}};
}

}  // namespace kintsugi::cli
