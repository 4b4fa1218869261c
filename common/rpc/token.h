/// Tokens: what a person, an application or a mount has in place of the cluster's secret, with a scope and an end.
///
/// A token is claims (common/proto/token.proto) and a key, which is the HMAC of the claims' bytes under the cluster's
/// secret. Its holder shows the claims when it connects and proves that it has the key (handshake.h). Whoever knows the
/// secret computes the same key, so that every daemon can check a token by itself, and nobody else can make or change
/// one.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "common/base/status.h"
#include "common/rpc/secret.h"
#include "common/runtime/clock.h"

namespace kintsugi::proto {
class Caller;
class TokenClaims;
}  // namespace kintsugi::proto

namespace kintsugi::rpc {

/// In ascending order of what they may do (rights.h).
enum class Role : uint8_t { kRead, kWrite, kAdmin, kDaemon };
std::string_view role_name(Role role);

/// Who is at the other end of a connection.
struct Principal {
  /// Which user and group the user and the group 0 count as.
  struct Squash {
    uint32_t uid, gid;
  };

  Role role = Role::kDaemon;  ///< kDaemon: it has the cluster's secret, and nothing below is set
  uint64_t id = 0;
  std::string name;
  std::string path;  ///< only what lies there and below; empty: everything
  WallTime issued{}, expires = WallTime::max();
  std::optional<Squash> squash;
  /// Which of the cluster's secrets it has proven with, or has a token of (Secret::id); 0: that is not known.
  uint64_t secret = 0;

  bool is_token() const { return role != Role::kDaemon; }
  /// For people: "the token backup", "the secret".
  std::string text() const;
  /// Nothing restricts what it may name, beside its role.
  bool is_unrestricted() const { return path.empty() && !squash; }
};

inline constexpr size_t kMaxTokenNameBytes = 64;
inline constexpr size_t kMaxTokenPathBytes = 1024;
inline constexpr size_t kMaxClaimsBytes = 2048;
/// Clocks may differ so much that a new token is good everywhere.
inline constexpr Duration kTokenClockTolerance = std::chrono::minutes(5);

/// kInvalidArgument: it says what is wrong with claims that the metaserver is asked for.
Status check_claims(const proto::TokenClaims& claims);
/// kCorrupt: these are no claims of a token, or check_claims does not like them.
Result<Principal> principal_of(std::string_view claims);
/// kPermissionDenied: it has expired, or was made after the time that `now` says.
Status check_time(const Principal& principal, WallTime now);

/// The key of the token with these claims, which were signed by the secret that signs now. REQUIRES: `cluster` is the
/// cluster's secret.
Secret token_key(const Secret& cluster, std::string claims);
/// The text of a token's file, on one line.
std::string token_text(const Secret& cluster, const std::string& claims);
/// kInvalidArgument: it is not the text of a token.
Result<Secret> parse_token(std::string_view text);
bool looks_like_token(std::string_view text);

/// Reads a token's file, which only its owner may read.
Result<Secret> load_token(const std::string& path);
/// For programs that are no daemons: the token when its file is named, else the cluster's secret. The file is followed.
Result<Secret> load_credential(const std::string& token_file, const std::string& secret_file);

/// The user 0 becomes the token's, and so does the group 0.
void squash(const Principal::Squash& to, proto::Caller& caller);

}  // namespace kintsugi::rpc
