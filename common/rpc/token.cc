#include "common/rpc/token.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <ctime>

#include <openssl/crypto.h>

#include "common/base/assert.h"
#include "common/proto/token.pb.h"
#include "common/proto/types.pb.h"
#include "common/rpc/private_file.h"

namespace kintsugi::rpc {
namespace {

constexpr std::string_view kPurpose = "token";
constexpr std::string_view kPrefix = "kintsugi-token:";
constexpr size_t kKeyBytes = sizeof(Mac);
constexpr size_t kMaxTextBytes = kPrefix.size() + 2 * kMaxClaimsBytes + 1 + 2 * kKeyBytes + 1;

std::string hex_of(std::span<const std::byte> bytes) {
  std::string text;
  for (const std::byte byte : bytes)
    text += fmt::format("{:02x}", static_cast<unsigned>(byte));
  return text;
}

/// None: it is not an even number of hexadecimal digits.
std::optional<std::string> bytes_of(std::string_view hex) {
  if (hex.size() % 2 != 0) return std::nullopt;
  std::string bytes;
  for (size_t i = 0; i < hex.size(); i += 2) {
    uint8_t byte = 0;
    const auto [end, error] = std::from_chars(hex.data() + i, hex.data() + i + 2, byte, 16);
    if (error != std::errc() || end != hex.data() + i + 2) return std::nullopt;
    bytes += static_cast<char>(byte);
  }
  return bytes;
}

WallTime wall_time(int64_t ns) {
  return WallTime(Duration(ns));
}

std::string date(WallTime time) {
  const std::time_t seconds = std::chrono::floor<std::chrono::seconds>(time).time_since_epoch().count();
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  return fmt::format("{:04}-{:02}-{:02} {:02}:{:02} UTC", parts.tm_year + 1900, parts.tm_mon + 1,
                     parts.tm_mday, parts.tm_hour, parts.tm_min);
}

std::optional<Role> role_of(proto::TokenClaims::Role role) {
  switch (role) {
    case proto::TokenClaims::READ: return Role::kRead;
    case proto::TokenClaims::WRITE: return Role::kWrite;
    case proto::TokenClaims::ADMIN: return Role::kAdmin;
    default: return std::nullopt;
  }
}

bool is_clean_path(std::string_view path) {
  if (path.empty()) return true;
  if (path.front() != '/' || path.size() < 2 || path.back() == '/') return false;
  for (size_t at = 1; at <= path.size();) {
    const size_t end = std::min(path.find('/', at), path.size());
    const std::string_view name = path.substr(at, end - at);
    if (name.empty() || name == "." || name == "..") return false;
    at = end + 1;
  }
  return path.find('\0') == path.npos;
}

}  // namespace

std::string_view role_name(Role role) {
  switch (role) {
    case Role::kRead: return "read";
    case Role::kWrite: return "write";
    case Role::kAdmin: return "admin";
    case Role::kDaemon: return "daemon";
  }
  return "unknown";
}

std::string Principal::text() const {
  return is_token() ? "the token " + name : "the secret";
}

Status check_claims(const proto::TokenClaims& claims) {
  const auto fits = [](char c) { return c > ' ' && c <= '~'; };
  if (claims.name().empty() || claims.name().size() > kMaxTokenNameBytes ||
      !std::ranges::all_of(claims.name(), fits))
    return invalid(fmt::format("the name of a token has up to {} letters, digits and signs, without blanks",
                               kMaxTokenNameBytes));
  if (!role_of(claims.role())) return invalid("the role of a token is admin, write or read");
  if (claims.path().size() > kMaxTokenPathBytes)
    return invalid(fmt::format("the path of a token has at most {} bytes", kMaxTokenPathBytes));
  if (!is_clean_path(claims.path()))
    return invalid("the path of a token is absolute, and not the root: /projects/one");
  if (!claims.path().empty() && claims.role() == proto::TokenClaims::ADMIN)
    return invalid("a token with the role admin is for the whole cluster: it has no path");
  return {};
}

Result<Principal> principal_of(std::string_view bytes) {
  const Status broken{Code::kCorrupt, "the token's claims are not understood"};
  proto::TokenClaims claims;
  if (bytes.size() > kMaxClaimsBytes || !claims.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
    return broken;
  const bool has_times = claims.issued_ns() > 0 && claims.expires_ns() >= 0;
  if (claims.id() == 0 || !has_times || !check_claims(claims).ok()) return broken;
  Principal principal;
  principal.role = *role_of(claims.role());
  principal.id = claims.id();
  principal.name = claims.name();
  principal.path = claims.path();
  principal.issued = wall_time(claims.issued_ns());
  if (claims.expires_ns() != 0) principal.expires = wall_time(claims.expires_ns());
  if (claims.squash()) principal.squash = {claims.squash_uid(), claims.squash_gid()};
  principal.secret = claims.secret();
  return principal;
}

Status check_time(const Principal& principal, WallTime now) {
  if (now >= principal.expires)
    return {Code::kPermissionDenied,
            fmt::format("{} expired at {}", principal.text(), date(principal.expires))};
  if (now < principal.issued - kTokenClockTolerance)
    return {Code::kPermissionDenied, fmt::format("{} was made at {}, and the clock of the server says {}",
                                                 principal.text(), date(principal.issued), date(now))};
  return {};
}

Secret token_key(const Secret& cluster, std::string claims) {
  const Mac key = cluster.mac(kPurpose, std::as_bytes(std::span(claims)));
  return Secret(key, std::move(claims));
}

std::string token_text(const Secret& cluster, const std::string& claims) {
  const Mac key = cluster.mac(kPurpose, std::as_bytes(std::span(claims)));
  return fmt::format("{}{}:{}", kPrefix, hex_of(std::as_bytes(std::span(claims))), hex_of(key));
}

bool looks_like_token(std::string_view text) {
  return text.starts_with(kPrefix);
}

Result<Secret> parse_token(std::string_view text) {
  const Status broken{Code::kInvalidArgument,
                      "is not a token as `kintsugi token create` makes it, or not all of it"};
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r' || text.back() == ' '))
    text.remove_suffix(1);
  if (!looks_like_token(text) || text.size() > kMaxTextBytes) return broken;
  text.remove_prefix(kPrefix.size());
  const size_t colon = text.find(':');
  if (colon == text.npos) return broken;
  const auto claims = bytes_of(text.substr(0, colon));
  const auto key = bytes_of(text.substr(colon + 1));
  if (!claims || !key || key->size() != kKeyBytes || !principal_of(*claims)) return broken;
  std::array<std::byte, kKeyBytes> bytes;
  std::memcpy(bytes.data(), key->data(), bytes.size());
  return Secret(bytes, *claims);
}

Result<Secret> load_token(const std::string& path) {
  KINTSUGI_ASSIGN(std::string text, read_private_file(path, "token file", kMaxTextBytes + 2));
  Result<Secret> token = parse_token(text);
  OPENSSL_cleanse(text.data(), text.size());
  if (!token)
    return Status{token.error().code(), fmt::format("token file {} {}", path, token.error().message())};
  return token;
}

Result<Secret> load_credential(const std::string& token_file, const std::string& secret_file) {
  if (token_file.empty()) return Secret::load(secret_file);
  KINTSUGI_ASSIGN(auto shared, SharedKeys::follow_token(token_file));
  return Secret(std::move(shared));
}

void squash(const Principal::Squash& to, proto::Caller& caller) {
  if (caller.uid() == 0) {
    caller.Clear();
    caller.set_uid(to.uid);
    caller.set_gid(to.gid);
    return;
  }
  if (caller.gid() == 0) caller.set_gid(to.gid);
  auto& groups = *caller.mutable_groups();
  groups.erase(std::remove(groups.begin(), groups.end(), 0u), groups.end());
}

}  // namespace kintsugi::rpc
