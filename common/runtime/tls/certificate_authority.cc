#include "common/runtime/tls/certificate_authority.h"

#include <algorithm>
#include <array>
#include <utility>

#include <boost/asio/ip/address.hpp>
#include <fmt/format.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>

#include "common/base/assert.h"
#include "common/base/quote.h"
#include "common/runtime/network.h"
#include "common/runtime/tls/openssl_types.h"

namespace kintsugi::runtime {
namespace {

constexpr size_t kMostOfACommonName = 64;  // what a common name may have
constexpr size_t kMostOfAHost = 253;
constexpr size_t kSerialBytes = 16;

using OwnedExtension = std::unique_ptr<X509_EXTENSION, Freed<&X509_EXTENSION_free>>;

time_t seconds_of(WallTime time) {
  return std::chrono::duration_cast<std::chrono::seconds>(time.time_since_epoch()).count();
}

void add_extension(X509* to, X509V3_CTX& context, int kind, const std::string& value) {
  const OwnedExtension extension(X509V3_EXT_conf_nid(nullptr, &context, kind, value.c_str()));
  KINTSUGI_ASSERT(extension != nullptr && X509_add_ext(to, extension.get(), -1) == 1);
}

/// "DNS:store-1,IP:10.0.0.11".
Result<std::string> alternative_names(const std::vector<std::string>& hosts) {
  std::string text;
  for (const std::string& host : hosts) {
    boost::system::error_code is_name;
    (void)asio::ip::make_address(host, is_name);
    const bool printable = std::ranges::all_of(host, [](char c) {
      return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' ||
             c == '-' || c == '_' || c == ':';
    });
    if (host.empty() || host.size() > kMostOfAHost || !printable || (is_name && host.find(':') != host.npos))
      return invalid(
          fmt::format("{} is neither a name nor an address of a host", quoted(host, kMostOfAHost)));
    text += fmt::format("{}{}:{}", text.empty() ? "" : ",", is_name ? "DNS" : "IP", host);
  }
  return text;
}

/// A certificate that nobody has signed yet.
Result<OwnedCertificate> unsigned_certificate(const CertificateWish& wish, EVP_PKEY* key) {
  const bool printable = std::ranges::all_of(wish.name, [](char c) { return c > ' ' && c < 0x7f; });
  if (wish.name.empty() || wish.name.size() > kMostOfACommonName || !printable)
    return invalid(
        fmt::format("{} is no name for a certificate: it has 1 to {} printable characters and no blanks",
                    quoted(wish.name, kMostOfACommonName), kMostOfACommonName));
  OwnedCertificate made(X509_new());
  KINTSUGI_ASSERT(made != nullptr);
  X509_set_version(made.get(), X509_VERSION_3);
  std::array<unsigned char, kSerialBytes> serial;
  if (RAND_bytes(serial.data(), serial.size()) != 1)
    return Status{Code::kInternal, "no randomness for a serial"};
  serial[0] = static_cast<unsigned char>((serial[0] & 0x3f) | 0x40);  // positive, and of full length
  ASN1_INTEGER* number = X509_get_serialNumber(made.get());
  KINTSUGI_ASSERT(ASN1_STRING_set(number, serial.data(), serial.size()) == 1);
  ASN1_TIME_set(X509_getm_notBefore(made.get()), seconds_of(wish.valid_from));
  ASN1_TIME_set(X509_getm_notAfter(made.get()), seconds_of(wish.valid_until));
  const auto* name = reinterpret_cast<const unsigned char*>(wish.name.data());
  X509_NAME_add_entry_by_NID(X509_get_subject_name(made.get()), NID_commonName, MBSTRING_UTF8, name,
                             static_cast<int>(wish.name.size()), -1, 0);
  X509_set_pubkey(made.get(), key);
  return made;
}

OwnedKey new_key() {
  OwnedKey key(EVP_EC_gen("P-256"));
  KINTSUGI_ASSERT(key != nullptr);
  return key;
}

std::string text_in(BIO* bio) {
  char* text = nullptr;
  const long length = BIO_get_mem_data(bio, &text);
  return {text, static_cast<size_t>(length)};
}

CertifiedKey as_pem(X509* certificate, EVP_PKEY* key) {
  const OwnedBio certificate_text(BIO_new(BIO_s_mem())), key_text(BIO_new(BIO_s_secmem()));
  const bool written =
      PEM_write_bio_X509(certificate_text.get(), certificate) == 1 &&
      PEM_write_bio_PrivateKey(key_text.get(), key, nullptr, nullptr, 0, nullptr, nullptr) == 1;
  KINTSUGI_ASSERT(written);
  return {text_in(certificate_text.get()), text_in(key_text.get())};
}

}  // namespace

Result<CertificateAuthority> CertificateAuthority::make(const std::string& name, WallTime valid_from,
                                                        WallTime valid_until) {
  OwnedKey key = new_key();
  KINTSUGI_ASSIGN(OwnedCertificate made,
                  unsigned_certificate({name, {}, valid_from, valid_until}, key.get()));
  X509_set_issuer_name(made.get(), X509_get_subject_name(made.get()));
  X509V3_CTX context{};
  X509V3_set_ctx(&context, made.get(), made.get(), nullptr, nullptr, 0);
  add_extension(made.get(), context, NID_basic_constraints, "critical,CA:TRUE,pathlen:0");
  add_extension(made.get(), context, NID_key_usage, "critical,keyCertSign,cRLSign");
  add_extension(made.get(), context, NID_subject_key_identifier, "hash");
  KINTSUGI_ASSERT(X509_sign(made.get(), key.get(), EVP_sha256()) > 0);
  return CertificateAuthority(made.release(), key.release());
}

Result<CertificateAuthority> CertificateAuthority::load(const CertifiedKey& own) {
  const auto size = [](const std::string& text) { return static_cast<int>(text.size()); };
  const OwnedBio certificate_text(BIO_new_mem_buf(own.certificate.data(), size(own.certificate)));
  const OwnedBio key_text(BIO_new_mem_buf(own.key.data(), size(own.key)));
  const auto no_password = [](char*, int, int, void*) { return -1; };
  OwnedCertificate certificate(PEM_read_bio_X509(certificate_text.get(), nullptr, no_password, nullptr));
  OwnedKey key(PEM_read_bio_PrivateKey(key_text.get(), nullptr, no_password, nullptr));
  const bool one_pair = certificate && key && X509_check_private_key(certificate.get(), key.get()) == 1;
  ERR_clear_error();
  if (!certificate || !key) return invalid("the authority's certificate or key is not PEM");
  if (!one_pair) return invalid("the authority's key is not that of its certificate");
  return CertificateAuthority(certificate.release(), key.release());
}

CertificateAuthority::~CertificateAuthority() {
  X509_free(certificate_);
  EVP_PKEY_free(key_);
}

CertificateAuthority::CertificateAuthority(CertificateAuthority&& other) noexcept
    : certificate_(std::exchange(other.certificate_, nullptr)), key_(std::exchange(other.key_, nullptr)) {}

CertifiedKey CertificateAuthority::own() const {
  return as_pem(certificate_, key_);
}

Result<CertifiedKey> CertificateAuthority::issue(const CertificateWish& wish) const {
  KINTSUGI_ASSIGN(const std::string hosts, alternative_names(wish.hosts));
  const OwnedKey key = new_key();
  KINTSUGI_ASSIGN(const OwnedCertificate made, unsigned_certificate(wish, key.get()));
  X509_set_issuer_name(made.get(), X509_get_subject_name(certificate_));
  X509V3_CTX context{};
  X509V3_set_ctx(&context, certificate_, made.get(), nullptr, nullptr, 0);
  add_extension(made.get(), context, NID_basic_constraints, "critical,CA:FALSE");
  add_extension(made.get(), context, NID_key_usage, "critical,digitalSignature");
  // Whoever dials demands a server's: a client cannot pretend to be a daemon.
  add_extension(made.get(), context, NID_ext_key_usage,
                hosts.empty() ? "clientAuth" : "serverAuth,clientAuth");
  add_extension(made.get(), context, NID_subject_key_identifier, "hash");
  add_extension(made.get(), context, NID_authority_key_identifier, "keyid:always");
  if (!hosts.empty()) add_extension(made.get(), context, NID_subject_alt_name, hosts);
  KINTSUGI_ASSERT(X509_sign(made.get(), key_, EVP_sha256()) > 0);
  return as_pem(made.get(), key.get());
}

Result<std::string> CertificateAuthority::revoke(const std::vector<std::string>& certificates,
                                                 WallTime now) const {
  const std::unique_ptr<X509_CRL, Freed<&X509_CRL_free>> list(X509_CRL_new());
  const std::unique_ptr<ASN1_TIME, Freed<&ASN1_STRING_free>> since(ASN1_TIME_set(nullptr, seconds_of(now)));
  KINTSUGI_ASSERT(list != nullptr && since != nullptr);
  X509_CRL_set_version(list.get(), X509_CRL_VERSION_2);
  X509_CRL_set_issuer_name(list.get(), X509_get_subject_name(certificate_));
  // Another authority of the same name, as one that follows this one, is not meant.
  X509V3_CTX context{};
  X509V3_set_ctx(&context, certificate_, nullptr, nullptr, list.get(), 0);
  const OwnedExtension whose(
      X509V3_EXT_conf_nid(nullptr, &context, NID_authority_key_identifier, "keyid:always"));
  KINTSUGI_ASSERT(whose != nullptr && X509_CRL_add_ext(list.get(), whose.get(), -1) == 1);
  // It names no time of the next one: a list that nobody renews would shut everybody out.
  X509_CRL_set1_lastUpdate(list.get(), since.get());
  for (const std::string& text : certificates) {
    const OwnedBio bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
    const OwnedCertificate certificate(PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr));
    ERR_clear_error();
    if (!certificate) return invalid("what is to be revoked is no certificate as PEM");
    X509_REVOKED* entry = X509_REVOKED_new();
    KINTSUGI_ASSERT(entry != nullptr);
    X509_REVOKED_set_serialNumber(entry, X509_get_serialNumber(certificate.get()));
    X509_REVOKED_set_revocationDate(entry, since.get());
    KINTSUGI_ASSERT(X509_CRL_add0_revoked(list.get(), entry) == 1);
  }
  X509_CRL_sort(list.get());
  KINTSUGI_ASSERT(X509_CRL_sign(list.get(), key_, EVP_sha256()) > 0);
  const OwnedBio text(BIO_new(BIO_s_mem()));
  KINTSUGI_ASSERT(PEM_write_bio_X509_CRL(text.get(), list.get()) == 1);
  return text_in(text.get());
}

}  // namespace kintsugi::runtime
