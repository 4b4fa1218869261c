#include "common/rpc/secret.h"

#include <cstring>
#include <deque>

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/params.h>

#include "common/base/assert.h"
#include "common/rpc/private_file.h"

namespace kintsugi::rpc {
namespace {

constexpr std::string_view kIdPurpose = "id";

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
  /// A context with the key of one purpose. Valid until the next call.
  const EVP_MAC_CTX* of(const SecretKey& secret, std::string_view purpose) {
    for (const Entry& entry : entries_) {
      if (entry.purpose == purpose && entry.secret == secret) return entry.context.get();
    }
    const Mac purpose_key = finish(keyed(secret), std::as_bytes(std::span(purpose)));
    if (entries_.size() == kMost) entries_.pop_front();
    entries_.push_back({secret, std::string(purpose), keyed(purpose_key)});
    return entries_.back().context.get();
  }

 private:
  /// Keys that are kept: a daemon has one or two secrets and a handful of purposes.
  static constexpr size_t kMost = 16;
  struct Entry {
    SecretKey secret;
    std::string purpose;
    MacContext context;
  };
  std::deque<Entry> entries_;
};

Mac mac_by(const SecretKey& key, std::string_view purpose, std::span<const std::byte> message) {
  thread_local KeyedContexts contexts;
  return finish(copy_of(contexts.of(key, purpose)), message);
}

uint64_t id_of(const SecretKey& key) {
  const Mac mac = mac_by(key, kIdPurpose, {});
  uint64_t id = 0;
  std::memcpy(&id, mac.data(), sizeof id);
  return id;
}

bool has_other(const SecretKeys& keys) {
  return keys.other_is != SecretKeys::Other::kNone;
}

}  // namespace

Result<Secret> Secret::load(const std::string& path) {
  KINTSUGI_ASSIGN(auto shared, SharedKeys::follow_secret(path));
  return Secret(std::move(shared));
}

Result<Secret> Secret::create(const std::string& path) {
  KINTSUGI_ASSIGN(const SecretKey key, random_secret());
  std::string text = secret_text({.own = key});
  const Status written = write_private_file(path, "secret file", text);
  OPENSSL_cleanse(text.data(), text.size());
  if (!written.ok()) return written;
  return Secret(key);
}

Mac Secret::mac(std::string_view purpose, std::span<const std::byte> message) const {
  return mac_by(keys()->own, purpose, message);
}

bool Secret::accepts(std::string_view purpose, std::span<const std::byte> message,
                     std::span<const std::byte> mac) const {
  const auto now = keys();
  return equal(mac_by(now->own, purpose, message), mac) ||
         (has_other(*now) && equal(mac_by(now->other, purpose, message), mac));
}

uint64_t Secret::id() const {
  return id_of(keys()->own);
}

bool Secret::accepts(uint64_t id) const {
  const auto now = keys();
  return id_of(now->own) == id || (has_other(*now) && id_of(now->other) == id);
}

std::vector<Secret> Secret::each() const {
  const auto now = keys();
  std::vector<Secret> all{Secret(now->own, now->claims)};
  if (has_other(*now)) all.emplace_back(now->other);
  return all;
}

bool equal(std::span<const std::byte> a, std::span<const std::byte> b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace kintsugi::rpc
