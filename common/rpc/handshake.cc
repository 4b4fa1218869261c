#include "common/rpc/handshake.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <vector>

#include "common/runtime/tls/tls_connection.h"

namespace kintsugi::rpc {
namespace {

constexpr size_t kNonceBytes = 16;
constexpr size_t kHelloBytes = 8 + kNonceBytes;
constexpr size_t kVersionOffset = 4;
constexpr size_t kClaimsBytesOffset = 6;
/// The end of the client's nonce, and so of its hello.
constexpr size_t kHintBytes = 4;
constexpr size_t kHintOffset = kHelloBytes - kHintBytes;
constexpr std::string_view kHintPurpose = "handshake hint";
constexpr std::byte kProven{1};
constexpr std::byte kUnproven{0};
constexpr std::byte kRefused{2};
constexpr size_t kMaxSentenceBytes = 512;
constexpr std::string_view kSecretsDiffer = "cluster secret does not match";

using Hello = std::array<std::byte, kHelloBytes>;

/// Numbers of the tail of a verdict.
struct RefusalHead {
  uint8_t code;
  uint8_t sentence_bytes[2];
};

Hello make_hello(runtime::Random& random, uint16_t version, size_t claims_bytes = 0) {
  Hello hello{};
  const auto claims = static_cast<uint16_t>(claims_bytes);
  std::memcpy(hello.data() + kClaimsBytesOffset, &claims, sizeof claims);
  std::memcpy(hello.data(), &kMagic, sizeof kMagic);
  std::memcpy(hello.data() + kVersionOffset, &version, sizeof version);
  random.fill(std::span(hello).subspan(8));
  return hello;
}

/// What both ends say when a proof is wrong.
Status unproven(const Secret& secret) {
  const auto token = principal_of(secret.claims());
  if (secret.claims().empty() || !token) return {Code::kPermissionDenied, std::string(kSecretsDiffer)};
  return {Code::kPermissionDenied,
          fmt::format("{} is not of this cluster, or its file was changed, or the secret that signed it was "
                      "dropped (kintsugi key rotate)",
                      token->text())};
}

/// Empty unless the peer's first bytes are of TLS, which this end does not speak on this connection.
std::string_view wish_for_tls(const Hello& hello) {
  const std::string_view begin(reinterpret_cast<const char*>(hello.data()), hello.size());
  if (begin.starts_with(runtime::kTlsWanted))
    return "handshake: TLS only is spoken there: set tls.certificate, tls.key and tls.authority, or for "
           "commands "
           "KINTSUGI_TLS_CERTIFICATE, KINTSUGI_TLS_KEY and KINTSUGI_TLS_AUTHORITY";
  if (begin.starts_with(runtime::kTlsHello))
    return "handshake: the peer speaks TLS, and this daemon does not: set tls.certificate, tls.key and "
           "tls.authority";
  return "";
}

uint16_t version_of(const Hello& hello) {
  uint16_t version;
  std::memcpy(&version, hello.data() + kVersionOffset, sizeof version);
  return version;
}

/// `newest`: the newest version that the peer may say.
Status check_hello(const Hello& hello, uint16_t newest) {
  if (const std::string_view wish = wish_for_tls(hello); !wish.empty())
    return {Code::kPermissionDenied, std::string(wish)};
  uint32_t magic;
  std::memcpy(&magic, hello.data(), sizeof magic);
  if (magic != kMagic) return {Code::kInvalidArgument, "handshake: bad magic: not a Kintsugi peer"};
  if (const uint16_t version = version_of(hello); version < kOldestVersion || version > newest) {
    return {Code::kInvalidArgument,
            fmt::format("handshake: peer speaks version {}, this is {}: upgrade the older one", version,
                        kVersion)};
  }
  return {};
}

Mac prove(const Secret& secret, std::string_view role, const Hello& client, const Hello& server) {
  std::array<std::byte, 6 + 2 * kHelloBytes> message;
  KINTSUGI_ASSERT(role.size() == 6);
  std::memcpy(message.data(), role.data(), 6);
  std::memcpy(message.data() + 6, client.data(), kHelloBytes);
  std::memcpy(message.data() + 6 + kHelloBytes, server.data(), kHelloBytes);
  return secret.mac("handshake", message);
}

/// What a client that has this key ends its hello with. It tells nothing of the key, and differs from hello to hello.
std::array<std::byte, kHintBytes> hint_of(const Secret& key, const Hello& hello) {
  const Mac mac = key.mac(kHintPurpose, std::span(hello).first(kHintOffset));
  std::array<std::byte, kHintBytes> hint;
  std::memcpy(hint.data(), mac.data(), hint.size());
  return hint;
}

/// One of the cluster's secrets, and the key that its peer has to have: of a token that it signed, or itself.
struct Key {
  uint64_t secret;
  Secret key;
};

/// The key that the client seems to have.
Key key_for(const Secret& secret, const Principal& principal, const std::string& claims,
            const Hello& client) {
  std::vector<Key> keys;
  for (const Secret& one : secret.each())
    keys.push_back({one.id(), claims.empty() ? one : token_key(one, claims)});
  const auto has_hint = [&client](const Key& each) {
    return equal(hint_of(each.key, client), std::span(client).subspan(kHintOffset));
  };
  if (const auto hinted = std::ranges::find_if(keys, has_hint); hinted != keys.end()) return *hinted;
  const auto named = std::ranges::find(keys, principal.secret, &Key::secret);
  if (named != keys.end()) return *named;
  return secret.keys()->other_is == SecretKeys::Other::kFormer ? keys.back() : keys.front();
}

/// What tells a connection from all others, and both ends know.
uint64_t number_of(const Hello& client, const Hello& server) {
  uint64_t of_client, of_server;
  std::memcpy(&of_client, client.data() + kHelloBytes - kNonceBytes, sizeof of_client);
  std::memcpy(&of_server, server.data() + kHelloBytes - kNonceBytes, sizeof of_server);
  return of_client ^ of_server;
}

/// Closes the connection when its time is up.
class CloseTimer {
 public:
  CloseTimer(runtime::Clock& clock, TimePoint due, std::shared_ptr<BufferedConnection> connection)
      : clock_(clock), timer_(clock.call_at(due, [this, connection = std::move(connection)] {
          fired_ = true;
          connection->close();
        })) {}
  ~CloseTimer() { clock_.cancel(timer_); }
  CloseTimer(const CloseTimer&) = delete;
  CloseTimer& operator=(const CloseTimer&) = delete;
  bool fired() const { return fired_; }

 private:
  runtime::Clock& clock_;
  bool fired_ = false;
  runtime::TimerId timer_;
};

asio::awaitable<Status> send(BufferedConnection& connection, std::span<const std::byte> bytes) {
  asio::const_buffer buffer(bytes.data(), bytes.size());
  co_return co_await connection.write(std::span(&buffer, 1));
}

asio::awaitable<Status> send_text(BufferedConnection& connection, std::string text) {
  co_return co_await send(connection, std::as_bytes(std::span(text)));
}

/// Why the server refuses a token whose key this end has proven.
asio::awaitable<Status> read_refusal(BufferedConnection& connection) {
  RefusalHead head;
  KINTSUGI_CO_TRY(co_await connection.read_exact(std::as_writable_bytes(std::span(&head, 1))));
  uint16_t bytes;
  std::memcpy(&bytes, head.sentence_bytes, sizeof bytes);
  if (bytes > kMaxSentenceBytes) co_return Status{Code::kCorrupt, "handshake: a refusal that is too long"};
  std::string sentence(bytes, '\0');
  KINTSUGI_CO_TRY(co_await connection.read_exact(std::as_writable_bytes(std::span(sentence))));
  const bool later = head.code == static_cast<uint8_t>(Code::kUnavailable);
  co_return Status{later ? Code::kUnavailable : Code::kPermissionDenied, std::move(sentence)};
}

asio::awaitable<Status> send_refusal(BufferedConnection& connection, const Status& refusal) {
  const std::string sentence = refusal.message().substr(0, kMaxSentenceBytes);
  const auto bytes = static_cast<uint16_t>(sentence.size());
  std::string verdict(1, static_cast<char>(kRefused));
  verdict += static_cast<char>(refusal.code());
  verdict.append(reinterpret_cast<const char*>(&bytes), sizeof bytes);
  verdict += sentence;
  return send_text(connection, std::move(verdict));
}

asio::awaitable<Status> exchange_as_client(const runtime::Runtime& runtime, const Secret& secret,
                                           BufferedConnection& connection) {
  secret.shared().look(runtime.clock.now());
  const std::vector<Secret> keys = secret.each();
  const std::string claims = keys.front().claims();
  Hello own = make_hello(runtime.random, kVersion, claims.size());
  std::ranges::copy(hint_of(keys.front(), own), own.begin() + kHintOffset);
  std::string greeting(reinterpret_cast<const char*>(own.data()), own.size());
  KINTSUGI_CO_TRY(co_await send_text(connection, greeting + claims));
  Hello peer;
  KINTSUGI_CO_TRY(co_await connection.read_exact(peer));
  KINTSUGI_CO_TRY(check_hello(peer, kVersion));
  Mac peer_proof;
  KINTSUGI_CO_TRY(co_await connection.read_exact(peer_proof));
  Mac own_proof{};
  const auto proved = std::ranges::find_if(
      keys, [&](const Secret& key) { return equal(peer_proof, prove(key, "server", own, peer)); });
  const bool peer_proven = proved != keys.end();
  // A server that could not prove itself gets zeros: it logs the mismatch and learns nothing.
  if (peer_proven) own_proof = prove(*proved, "client", own, peer);
  KINTSUGI_CO_TRY(co_await send(connection, own_proof));
  if (!peer_proven) co_return unproven(keys.front());
  std::array<std::byte, 1> verdict;
  KINTSUGI_CO_TRY(co_await connection.read_exact(verdict));
  if (verdict[0] == kRefused) co_return co_await read_refusal(connection);
  if (verdict[0] != kProven) co_return unproven(keys.front());
  connection.marks().begin(number_of(own, peer), /*dialled=*/true);
  co_return Status{};
}

/// The claims that follow a client's hello, if there are any.
asio::awaitable<Result<std::string>> read_claims(BufferedConnection& connection, const Hello& hello) {
  uint16_t bytes;
  std::memcpy(&bytes, hello.data() + kClaimsBytesOffset, sizeof bytes);
  if (bytes > kMaxClaimsBytes)
    co_return Status{Code::kLimitExceeded, fmt::format("handshake: claims of {} bytes", bytes)};
  std::string claims(bytes, '\0');
  if (!claims.empty())
    KINTSUGI_CO_TRY(co_await connection.read_exact(std::as_writable_bytes(std::span(claims))));
  co_return claims;
}

asio::awaitable<Result<Principal>> exchange_as_server(const runtime::Runtime& runtime, const Secret& secret,
                                                      Doorkeeper& doorkeeper,
                                                      BufferedConnection& connection) {
  secret.shared().look(runtime.clock.now());
  Hello peer;
  KINTSUGI_CO_TRY(co_await connection.read_exact(peer));
  Status hello = check_hello(peer, std::numeric_limits<uint16_t>::max());
  Hello own = make_hello(runtime.random, hello.ok() ? std::min(kVersion, version_of(peer)) : kVersion);
  if (!hello.ok()) {
    // Lets a peer of another version say so; its outcome does not matter.
    if (std::memcmp(peer.data(), own.data(), sizeof kMagic) == 0) (void)co_await send(connection, own);
    co_return hello;
  }
  Result<std::string> claims = co_await read_claims(connection, peer);
  if (!claims) co_return claims.error();
  Result<Principal> principal = claims->empty() ? Principal{} : principal_of(*claims);
  if (!principal) co_return principal;
  const auto [by, key] = key_for(secret, *principal, *claims, peer);
  principal->secret = by;
  std::array<std::byte, kHelloBytes + sizeof(Mac)> answer;
  Mac own_proof = prove(key, "server", peer, own);
  std::memcpy(answer.data(), own.data(), own.size());
  std::memcpy(answer.data() + own.size(), own_proof.data(), own_proof.size());
  KINTSUGI_CO_TRY(co_await send(connection, answer));
  Mac peer_proof;
  KINTSUGI_CO_TRY(co_await connection.read_exact(peer_proof));
  const bool peer_proven = equal(peer_proof, prove(key, "client", peer, own));
  const Status allowed = peer_proven ? doorkeeper.check(*principal, connection.peer()) : unproven(key);
  if (peer_proven && !allowed.ok()) {
    (void)co_await send_refusal(connection, allowed);
    co_return allowed;
  }
  std::array<std::byte, 1> verdict{peer_proven ? kProven : kUnproven};
  Status sent = co_await send(connection, verdict);
  if (!peer_proven) co_return allowed;
  KINTSUGI_CO_TRY(std::move(sent));
  connection.marks().begin(number_of(peer, own), /*dialled=*/false);
  co_return principal;
}

}  // namespace

asio::awaitable<Status> prove_as_client(const runtime::Runtime& runtime, const Secret& secret,
                                        std::shared_ptr<BufferedConnection> connection, TimePoint deadline) {
  CloseTimer timer(runtime.clock, deadline, connection);
  Status status = co_await exchange_as_client(runtime, secret, *connection);
  if (timer.fired()) status = Status{Code::kDeadlineExceeded, "handshake: no answer in time"};
  co_return status.with_context(connection->peer());
}

asio::awaitable<Result<Principal>> prove_as_server(const runtime::Runtime& runtime, const Secret& secret,
                                                   Doorkeeper& doorkeeper,
                                                   std::shared_ptr<BufferedConnection> connection,
                                                   TimePoint deadline) {
  CloseTimer timer(runtime.clock, deadline, connection);
  Result<Principal> principal = co_await exchange_as_server(runtime, secret, doorkeeper, *connection);
  if (timer.fired()) principal = Status{Code::kDeadlineExceeded, "handshake: not finished in time"};
  co_return principal;
}

}  // namespace kintsugi::rpc
