/// Objects of OpenSSL that are freed by themselves. Included by sources only.
#pragma once

#include <memory>
#include <string>

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include "common/runtime/clock.h"

namespace kintsugi::runtime {

template <auto Free>
struct Freed {
  template <class T>
  void operator()(T* object) const {
    Free(object);
  }
};

using OwnedBio = std::unique_ptr<BIO, Freed<&BIO_free_all>>;
using OwnedKey = std::unique_ptr<EVP_PKEY, Freed<&EVP_PKEY_free>>;
using OwnedCertificate = std::unique_ptr<X509, Freed<&X509_free>>;
using OwnedSslContext = std::unique_ptr<SSL_CTX, Freed<&SSL_CTX_free>>;
using OwnedSsl = std::unique_ptr<SSL, Freed<&SSL_free>>;

/// The oldest error of this thread's queue, as a sentence; the queue is empty afterwards.
std::string take_openssl_error();

/// For a check of certificates: an authority without a list has revoked nobody, also while another one has a list.
int accept_without_list(int accepted, X509_STORE_CTX* check);

/// Who shows a certificate: the end that answers, or the end that dials. A daemon is both.
enum class CertificateRole { kServer, kClient };

/// Empty when the certificate's extended key usage has the role, else the rest of a sentence that begins with its owner.
/// One without this extension has no role: RFC 5280 takes it for all of them, and whoever has it could pretend to be a
/// daemon.
std::string why_not_in_role(X509* certificate, CertificateRole role);

/// The common name of a certificate's subject, short and printable.
std::string name_of(const X509* certificate);
WallTime time_of(const ASN1_TIME* time);
/// "2026-11-28 09:56 UTC".
std::string date_text(WallTime time);

}  // namespace kintsugi::runtime
