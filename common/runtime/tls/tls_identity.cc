#include "common/runtime/tls/tls_identity.h"

#include <cerrno>
#include <cstdio>

#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>

#include "common/base/assert.h"
#include "common/runtime/tls/openssl_types.h"

namespace kintsugi::runtime {
namespace {

/// AES with 128 bits comes first: it takes three quarters of the time of 256 bits.
constexpr const char* kCiphers = "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256";
constexpr const char* kGroups = "X25519:P-256";

using OwnedFile = std::unique_ptr<std::FILE, Freed<&std::fclose>>;
using OwnedStore = std::unique_ptr<X509_STORE, Freed<&X509_STORE_free>>;
using OwnedStoreContext = std::unique_ptr<X509_STORE_CTX, Freed<&X509_STORE_CTX_free>>;
using OwnedList = std::unique_ptr<X509_CRL, Freed<&X509_CRL_free>>;

Status unusable(std::string message) {
  ERR_clear_error();
  return {Code::kInvalidArgument, std::move(message)};
}

Result<OwnedFile> open_file(const std::string& path, std::string_view what) {
  OwnedFile file(std::fopen(path.c_str(), "re"));
  if (!file) return status_from_errno(errno, fmt::format("open {} {}", what, path));
  return file;
}

/// A key with a password cannot be read by a daemon, which nobody asks for one.
int no_password(char*, int, int, void*) {
  return -1;
}

Result<OwnedKey> read_key(const std::string& path) {
  KINTSUGI_ASSIGN(const OwnedFile file, open_file(path, "tls.key"));
  struct stat info{};
  if (::fstat(::fileno(file.get()), &info) != 0) return status_from_errno(errno, "stat tls.key " + path);
  if ((info.st_mode & 0077) != 0) {
    return Status{Code::kPermissionDenied,
                  fmt::format("tls.key {} has mode {:04o}: others may read it (chmod 600)", path,
                              info.st_mode & 07777)};
  }
  OwnedKey key(PEM_read_PrivateKey(file.get(), nullptr, no_password, nullptr));
  if (!key) return unusable(fmt::format("tls.key {} holds no key without a password, as PEM", path));
  return key;
}

/// Whether the last read found nothing more, rather than something that is damaged or cut off.
bool ended_well() {
  const unsigned long error = ERR_peek_last_error();
  return ERR_GET_LIB(error) == ERR_LIB_PEM && ERR_GET_REASON(error) == PEM_R_NO_START_LINE;
}

/// Takes what the file holds into the store, and has its names told to clients. Returns when the last one expires.
Result<WallTime> read_authorities(const std::string& path, SSL_CTX* context) {
  KINTSUGI_ASSIGN(const OwnedFile file, open_file(path, "tls.authority"));
  X509_STORE* store = SSL_CTX_get_cert_store(context);
  WallTime last{};
  while (const OwnedCertificate authority{PEM_read_X509(file.get(), nullptr, no_password, nullptr)}) {
    if (X509_check_ca(authority.get()) != 1)
      return unusable(fmt::format("tls.authority {}: the certificate of {} is no authority's", path,
                                  name_of(authority.get())));
    X509_STORE_add_cert(store, authority.get());
    SSL_CTX_add_client_CA(context, authority.get());
    last = std::max(last, time_of(X509_get0_notAfter(authority.get())));
  }
  // Half a list would revoke nobody.
  const auto damaged = [&] { return unusable(fmt::format("tls.authority {} is damaged or cut off", path)); };
  if (!ended_well()) return damaged();
  if (last == WallTime{}) return unusable(fmt::format("tls.authority {} holds no certificate as PEM", path));
  std::rewind(file.get());
  bool revokes = false;
  while (const OwnedList list{PEM_read_X509_CRL(file.get(), nullptr, no_password, nullptr)})
    revokes = X509_STORE_add_crl(store, list.get()) == 1 || revokes;
  if (!ended_well()) return damaged();
  if (revokes) X509_STORE_set_flags(store, X509_V_FLAG_CRL_CHECK);
  ERR_clear_error();
  return last;
}

/// That others would believe this certificate, whatever the time is.
Status check_own(SSL_CTX* context, const TlsFiles& files) {
  const OwnedStoreContext check(X509_STORE_CTX_new());
  KINTSUGI_ASSERT(check != nullptr);
  STACK_OF(X509)* chain = nullptr;
  SSL_CTX_get0_chain_certs(context, &chain);
  X509* own = SSL_CTX_get0_certificate(context);
  X509_STORE_CTX_init(check.get(), SSL_CTX_get_cert_store(context), own, chain);
  X509_STORE_CTX_set_flags(check.get(), X509_V_FLAG_NO_CHECK_TIME);
  X509_STORE_CTX_set_verify_cb(check.get(), accept_without_list);
  if (X509_verify_cert(check.get()) == 1) {
    // Every process connects to others.
    const std::string why = why_not_in_role(own, CertificateRole::kClient);
    return why.empty()
               ? Status()
               : unusable(fmt::format("tls.certificate {} (of {}) {}", files.certificate, name_of(own), why));
  }
  return unusable(fmt::format("tls.certificate {} (of {}) is not one of the authority in {}: {}",
                              files.certificate, name_of(own), files.authority,
                              X509_verify_cert_error_string(X509_STORE_CTX_get_error(check.get()))));
}

OwnedSslContext make_context() {
  OwnedSslContext context(SSL_CTX_new(TLS_method()));
  KINTSUGI_ASSERT(context != nullptr);
  SSL_CTX_set_min_proto_version(context.get(), TLS1_3_VERSION);
  KINTSUGI_ASSERT(SSL_CTX_set_ciphersuites(context.get(), kCiphers) == 1);
  KINTSUGI_ASSERT(SSL_CTX_set1_groups_list(context.get(), kGroups) == 1);
  // Connections are kept open, so none is resumed; and what a ticket would resume is not checked again.
  SSL_CTX_set_session_cache_mode(context.get(), SSL_SESS_CACHE_OFF);
  SSL_CTX_set_num_tickets(context.get(), 0);
  // A connection that waits holds no buffers. Everybody has the authority already, so it is not sent along.
  SSL_CTX_set_mode(context.get(), SSL_MODE_RELEASE_BUFFERS | SSL_MODE_NO_AUTO_CHAIN);
  return context;
}

}  // namespace

Result<std::shared_ptr<const TlsIdentity>> TlsIdentity::load(const TlsFiles& files) {
  for (const auto& [path, what] :
       {std::pair(&files.certificate, "tls.certificate"), std::pair(&files.key, "tls.key"),
        std::pair(&files.authority, "tls.authority")})
    if (path->empty()) return unusable(fmt::format("{} is not set: TLS needs all three files", what));
  OwnedSslContext context = make_context();
  KINTSUGI_ASSIGN(const OwnedKey key, read_key(files.key));
  KINTSUGI_ASSIGN(const OwnedFile readable, open_file(files.certificate, "tls.certificate"));
  if (SSL_CTX_use_certificate_chain_file(context.get(), files.certificate.c_str()) != 1)
    return unusable(fmt::format("tls.certificate {} holds no certificate as PEM", files.certificate));
  const X509* own = SSL_CTX_get0_certificate(context.get());
  if (SSL_CTX_use_PrivateKey(context.get(), key.get()) != 1)
    return unusable(fmt::format("tls.key {} is not the key of the certificate {} (of {})", files.key,
                                files.certificate, name_of(own)));
  KINTSUGI_ASSIGN(const WallTime authority_expires, read_authorities(files.authority, context.get()));
  KINTSUGI_TRY(check_own(context.get(), files));
  std::shared_ptr<TlsIdentity> identity(new TlsIdentity());
  identity->name_ = name_of(own);
  identity->valid_from_ = time_of(X509_get0_notBefore(own));
  identity->expires_ = time_of(X509_get0_notAfter(own));
  identity->authority_expires_ = authority_expires;
  identity->context_ = context.release();
  return identity;
}

TlsIdentity::~TlsIdentity() {
  SSL_CTX_free(context_);
}

std::string TlsIdentity::why_not_for(const std::string& host) const {
  X509* own = SSL_CTX_get0_certificate(context_);
  if (const std::string why = why_not_in_role(own, CertificateRole::kServer); !why.empty())
    return fmt::format("the certificate of {} {}", name_, why);
  const bool is_address = X509_check_ip_asc(own, host.c_str(), 0) == 1;
  ERR_clear_error();
  if (is_address ||
      X509_check_host(own, host.data(), host.size(), X509_CHECK_FLAG_NEVER_CHECK_SUBJECT, nullptr) == 1)
    return "";
  return fmt::format("the certificate of {} is not for {}, at which others call this daemon", name_, host);
}

std::string TlsIdentity::why_not_valid(WallTime now) const {
  if (now >= valid_from_ && now < expires_) return "";
  const std::string here = date_text(now);
  return now < valid_from_
             ? fmt::format("the certificate of {} is valid from {} on, and the clock here says {}", name_,
                           date_text(valid_from_), here)
             : fmt::format("the certificate of {} expired at {}, and the clock here says {}", name_,
                           date_text(expires_), here);
}

}  // namespace kintsugi::runtime
