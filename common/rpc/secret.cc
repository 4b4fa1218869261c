#include "common/rpc/secret.h"

#include <climits>
#include <deque>

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <openssl/rand.h>

#include "common/base/assert.h"
#include "common/rpc/private_file.h"
#include "common/rpc/token.h"

namespace kintsugi::rpc {
namespace {

constexpr size_t kSecretBytes = 32;
constexpr size_t kSecretFileBytes = 2 * kSecretBytes + 1;  // hex and a newline
constexpr size_t kMostRead = 8192;

/// A prepared context, which each MAC copies: OpenSSL takes microseconds to fetch an algorithm.
EVP_MAC_CTX* prepared_hmac() {
  static EVP_MAC_CTX* const prepared = [] {
    EVP_MAC* hmac = EVP_MAC_fetch(nullptr, "HMAC", nullptr);
    KINTSUGI_ASSERT(hmac != nullptr);
    EVP_MAC_CTX* context = EVP_MAC_CTX_new(hmac);
    EVP_MAC_free(hmac);
    KINTSUGI_ASSERT(context != nullptr);
    char digest[] = "SHA256";
    OSSL_PARAM params[] = {OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0),
                           OSSL_PARAM_construct_end()};
    KINTSUGI_ASSERT(EVP_MAC_CTX_set_params(context, params) == 1);
    return context;
  }();
  return prepared;
}

using MacContext = std::unique_ptr<EVP_MAC_CTX, decltype(&EVP_MAC_CTX_free)>;

MacContext copy_of(const EVP_MAC_CTX* prepared) {
  MacContext copy(EVP_MAC_CTX_dup(prepared), &EVP_MAC_CTX_free);
  KINTSUGI_ASSERT(copy != nullptr);
  return copy;
}

/// A context that has taken the key in, and no message yet.
MacContext keyed(std::span<const std::byte> key) {
  MacContext context = copy_of(prepared_hmac());
  const auto* bytes = reinterpret_cast<const unsigned char*>(key.data());
  KINTSUGI_ASSERT(EVP_MAC_init(context.get(), bytes, key.size(), nullptr) == 1);
  return context;
}

Mac finish(MacContext context, std::span<const std::byte> message) {
  Mac out;
  size_t written = 0;
  const auto* bytes = reinterpret_cast<const unsigned char*>(message.data());
  const bool ok =
      EVP_MAC_update(context.get(), bytes, message.size()) == 1 &&
      EVP_MAC_final(context.get(), reinterpret_cast<unsigned char*>(out.data()), &written, out.size()) == 1;
  KINTSUGI_ASSERT(ok && written == out.size());
  return out;
}

/// Contexts with the keys that were used last: a stripe's capabilities and its ticket are several MACs, of which the
/// keys would be most of the work.
class KeyedContexts {
 public:
  using Key = std::array<std::byte, kSecretBytes>;

  /// A context with the key of one purpose. Valid until the next call.
  const EVP_MAC_CTX* of(const Key& secret, std::string_view purpose) {
    for (const Entry& entry : entries_) {
      if (entry.purpose == purpose && entry.secret == secret) return entry.context.get();
    }
    const Mac purpose_key = finish(keyed(secret), std::as_bytes(std::span(purpose)));
    if (entries_.size() == kMost) entries_.pop_front();
    entries_.push_back({secret, std::string(purpose), keyed(purpose_key)});
    return entries_.back().context.get();
  }

 private:
  /// Keys that are kept: a daemon has one secret and a handful of purposes.
  static constexpr size_t kMost = 8;
  struct Entry {
    Key secret;
    std::string purpose;
    MacContext context;
  };
  std::deque<Entry> entries_;
};

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

Result<Secret> Secret::load(const std::string& path) {
  // A token is longer: it is read as far as it takes to tell.
  KINTSUGI_ASSIGN(std::string text, read_private_file(path, "secret file", kMostRead));
  if (looks_like_token(text))
    return Status{
        Code::kInvalidArgument,
        "secret file " + path + " holds a token: name it with KINTSUGI_TOKEN_FILE; daemons need the secret"};
  const Status no_secret{Code::kInvalidArgument,
                         "secret file " + path + " must hold 64 hex digits and a newline"};
  if (text.size() != kSecretFileBytes || text.back() != '\n') return no_secret;
  std::array<std::byte, kSecretBytes> key;
  for (size_t i = 0; i < kSecretBytes; ++i) {
    const int high = hex_digit(text[2 * i]), low = hex_digit(text[2 * i + 1]);
    if (high < 0 || low < 0) return no_secret;
    key[i] = static_cast<std::byte>(high * 16 + low);
  }
  OPENSSL_cleanse(text.data(), text.size());
  return Secret(key);
}

Result<Secret> Secret::create(const std::string& path) {
  std::array<std::byte, kSecretBytes> key;
  if (RAND_bytes(reinterpret_cast<unsigned char*>(key.data()), static_cast<int>(key.size())) != 1) {
    return Status{Code::kInternal, "no randomness for a cluster secret"};
  }
  std::string text;
  for (std::byte b : key)
    text += fmt::format("{:02x}", static_cast<unsigned>(b));
  text += '\n';
  const Status written = write_private_file(path, "secret file", text);
  OPENSSL_cleanse(text.data(), text.size());
  if (!written.ok()) return written;
  return Secret(key);
}

Mac Secret::mac(std::string_view purpose, std::span<const std::byte> message) const {
  thread_local KeyedContexts contexts;
  return finish(copy_of(contexts.of(key_, purpose)), message);
}

bool equal(std::span<const std::byte> a, std::span<const std::byte> b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace kintsugi::rpc
