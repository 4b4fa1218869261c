#include "common/daemon/page_tokens.h"

#include <algorithm>

#include <openssl/crypto.h>
#include <openssl/evp.h>

#include "common/daemon/daemon.h"
#include "common/rpc/rights.h"
#include "common/rpc/server.h"

namespace kintsugi::daemon {
namespace {

/// A token's text is shorter than this, also when it is encoded.
constexpr size_t kMostEncoded = 12 << 10;

bool is_one_of(std::string_view path, std::initializer_list<std::string_view> pages) {
  for (const std::string_view page : pages)
    if (path == page) return true;
  return false;
}

std::optional<std::string> decoded(std::string_view base64) {
  if (base64.empty() || base64.size() > kMostEncoded || base64.size() % 4 != 0) return std::nullopt;
  std::string bytes(base64.size() / 4 * 3, '\0');
  const int size =
      EVP_DecodeBlock(reinterpret_cast<unsigned char*>(bytes.data()),
                      reinterpret_cast<const unsigned char*>(base64.data()), static_cast<int>(base64.size()));
  if (size < 0) return std::nullopt;
  const size_t padding = base64.ends_with("==") ? 2 : base64.ends_with("=") ? 1 : 0;
  bytes.resize(static_cast<size_t>(size) - padding);
  return bytes;
}

/// Returns the text behind `scheme` (in lower case; the field may have capitals). None: the field has another scheme.
std::optional<std::string_view> shown_by(std::string_view scheme, std::string_view authorization) {
  const auto is_same = [](char a, char b) { return (a >= 'A' && a <= 'Z' ? a - 'A' + 'a' : a) == b; };
  const size_t blank = authorization.find(' ');
  if (blank == authorization.npos) return std::nullopt;
  if (!std::ranges::equal(authorization.substr(0, blank), scheme, is_same)) return std::nullopt;
  return authorization.substr(blank + 1);
}

}  // namespace

std::optional<std::string> bearer_token_of(std::string_view authorization) {
  const auto shown = shown_by("bearer", authorization);
  return shown ? std::optional(std::string(*shown)) : std::nullopt;
}

std::optional<std::string> token_of(std::string_view authorization) {
  if (auto token = bearer_token_of(authorization)) return token;
  const auto shown = shown_by("basic", authorization);
  const auto pair = shown ? decoded(*shown) : std::nullopt;
  const size_t colon = pair ? pair->find(':') : std::string::npos;
  if (colon == std::string::npos) return std::nullopt;
  return pair->substr(colon + 1);
}

Result<rpc::Principal> reader_of(const rpc::Secret& cluster, std::string_view token) {
  const auto shown = rpc::parse_token(token);
  if (!shown) return Status{Code::kPermissionDenied, "what was shown " + shown.error().message()};
  while (!token.empty() && (token.back() == '\n' || token.back() == '\r' || token.back() == ' '))
    token.remove_suffix(1);
  const std::string claims = shown->claims();
  const bool same = std::ranges::any_of(cluster.each(), [&](const rpc::Secret& secret) {
    const std::string right = rpc::token_text(secret, claims);
    return right.size() == token.size() && CRYPTO_memcmp(right.data(), token.data(), right.size()) == 0;
  });
  if (!same) return Status{Code::kPermissionDenied, "the token is of another cluster, or was changed"};
  return rpc::principal_of(claims);
}

Status check_page(const rpc::Principal& reader, std::string_view path) {
  if (!reader.path.empty())
    return {Code::kPermissionDenied,
            fmt::format("pages are of the whole cluster, and {} is for {}", reader.text(), reader.path)};
  const bool for_readers = is_one_of(path, {"/metrics", "/sd", "/healthz", "/debug/clock"});
  if (for_readers || rpc::highest_right(reader.role) >= rpc::Right::kInspect) return {};
  return {Code::kPermissionDenied, fmt::format("{} is for tokens of the role admin, and {} has the role {}",
                                               path, reader.text(), rpc::role_name(reader.role))};
}

Status PageTokens::admit(std::string_view path, std::string_view authorization,
                         runtime::PeerProof shown) const {
  // Clients compare clocks, and ask whether a daemon is well, before they have a token.
  if (shown == runtime::PeerProof::kCertificate && is_one_of(path, {"/healthz", "/debug/clock"})) return {};
  const auto token = token_of(authorization);
  if (!token)
    return {Code::kPermissionDenied,
            "these pages are for holders of a token: send Authorization: Bearer TOKEN, or the token as the "
            "password of any name"};
  KINTSUGI_ASSIGN(const rpc::Principal reader, reader_of(cluster_, *token));
  KINTSUGI_TRY(daemon_->rpc_server().check_token(reader));
  return check_page(reader, path);
}

}  // namespace kintsugi::daemon
