#include "common/runtime/tls/tls_refusal.h"

#include <vector>

#include <boost/asio/ip/address.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>

#include "common/base/quote.h"
#include "common/runtime/network.h"
#include "common/runtime/tls/openssl_types.h"

namespace kintsugi::runtime {
namespace {

using OwnedNames = std::unique_ptr<GENERAL_NAMES, Freed<&GENERAL_NAMES_free>>;

constexpr size_t kMostNames = 4;
constexpr size_t kMostOfADnsName = 80;
/// OpenSSL's reason for an alert of the peer is this and the alert's number.
constexpr int kAlertReasons = SSL_AD_REASON_OFFSET;

std::string text_of(const GENERAL_NAME& name) {
  int kind = 0;
  const auto* value = static_cast<const ASN1_STRING*>(GENERAL_NAME_get0_value(&name, &kind));
  const std::string_view bytes(reinterpret_cast<const char*>(ASN1_STRING_get0_data(value)),
                               static_cast<size_t>(ASN1_STRING_length(value)));
  if (kind == GEN_DNS) return quoted(bytes, kMostOfADnsName);
  if (kind == GEN_IPADD && bytes.size() == 4) {
    asio::ip::address_v4::bytes_type address;
    std::copy(bytes.begin(), bytes.end(), address.begin());
    return asio::ip::make_address_v4(address).to_string();
  }
  if (kind == GEN_IPADD && bytes.size() == 16) {
    asio::ip::address_v6::bytes_type address;
    std::copy(bytes.begin(), bytes.end(), address.begin());
    return asio::ip::make_address_v6(address).to_string();
  }
  return "";
}

/// The first names and addresses that the certificate is for.
std::string hosts_of(const X509* certificate) {
  const OwnedNames names(
      static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr)));
  std::vector<std::string> texts;
  for (int i = 0; names && i < sk_GENERAL_NAME_num(names.get()) && texts.size() < kMostNames; ++i)
    if (std::string text = text_of(*sk_GENERAL_NAME_value(names.get(), i)); !text.empty())
      texts.push_back(text);
  return texts.empty() ? "no host" : fmt::format("{}", fmt::join(texts, ", "));
}

CertificateRole role_of(bool server) {
  return server ? CertificateRole::kServer : CertificateRole::kClient;
}

/// Why this end refuses the certificate that the peer showed.
std::string our_refusal(int verdict, X509* certificate, const TlsPeer& peer) {
  if (certificate == nullptr)
    return fmt::format("the peer is refused: {}", X509_verify_cert_error_string(verdict));
  const std::string whose = "the certificate of " + name_of(certificate);
  switch (verdict) {
    case X509_V_ERR_CERT_HAS_EXPIRED:
      return fmt::format("{} expired at {}, and the clock here says {}", whose,
                         date_text(time_of(X509_get0_notAfter(certificate))), date_text(peer.now));
    case X509_V_ERR_CERT_NOT_YET_VALID:
      return fmt::format("{} is valid from {} on, and the clock here says {}: one of the two clocks is wrong",
                         whose, date_text(time_of(X509_get0_notBefore(certificate))), date_text(peer.now));
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
      return fmt::format("{} is for {}, and not for {}", whose, hosts_of(certificate), peer.host);
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
      return whose + " is self-made, and not of this cluster's authority";
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_CERT_SIGNATURE_FAILURE:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN: return whose + " is of another authority than this cluster's";
    case X509_V_ERR_CERT_REVOKED: return whose + " is revoked";
    case X509_V_ERR_INVALID_PURPOSE:
      if (const std::string why = why_not_in_role(certificate, role_of(peer.own_end == TlsEnd::kClient));
          !why.empty())
        return whose + " " + why;
      [[fallthrough]];  // it is the certificate of an authority between
    default: return fmt::format("{} is not accepted: {}", whose, X509_verify_cert_error_string(verdict));
  }
}

/// What the peer's alert says of the certificate that was shown to it; empty: it says nothing on certificates.
std::string their_refusal(int alert, const TlsIdentity& own, const TlsPeer& peer) {
  const std::string ours = own.why_not_valid(peer.now);
  const std::string refused =
      fmt::format("the peer refuses the certificate of {} that this host shows: ", own.name());
  switch (alert) {
    case SSL_AD_CERTIFICATE_EXPIRED:
      return refused +
             (ours.empty() ? "it takes it for expired, so that one of the two clocks is wrong" : ours);
    case SSL_AD_UNKNOWN_CA: return refused + "it is of another authority than the peer's cluster";
    case SSL_AD_CERTIFICATE_REVOKED: return refused + "it is revoked";
    case SSL_AD_BAD_CERTIFICATE:
      return refused +
             (ours.empty() ? "not valid yet by the peer's clock, or not for this host's name" : ours);
    case SSL_AD_UNSUPPORTED_CERTIFICATE: {
      const std::string why =
          why_not_in_role(SSL_CTX_get0_certificate(own.context()), role_of(peer.own_end != TlsEnd::kClient));
      return refused + (why.empty() ? "the peer's log says why" : "it " + why);
    }
    case SSL_AD_CERTIFICATE_UNKNOWN: return refused + "the peer's log says why";
    case SSL_AD_CERTIFICATE_REQUIRED: return "the peer wants a certificate, and this host shows none";
    default: return "";
  }
}

bool is_no_tls(int reason) {
  return reason == SSL_R_WRONG_VERSION_NUMBER || reason == SSL_R_HTTP_REQUEST ||
         reason == SSL_R_HTTPS_PROXY_REQUEST || reason == SSL_R_RECORD_TOO_SMALL ||
         reason == SSL_R_PACKET_LENGTH_TOO_LONG || reason == SSL_R_BAD_RECORD_TYPE ||
         reason == SSL_R_UNEXPECTED_MESSAGE;
}

}  // namespace

void check_tls_peer(ssl_st& ssl, TlsPeer& peer) {
  SSL_set_app_data(&ssl, &peer);
  const int demands =
      SSL_VERIFY_PEER | (peer.own_end == TlsEnd::kPages ? 0 : SSL_VERIFY_FAIL_IF_NO_PEER_CERT);
  SSL_set_verify(&ssl, demands, [](int accepted, X509_STORE_CTX* check) {
    const auto* of =
        static_cast<SSL*>(X509_STORE_CTX_get_ex_data(check, SSL_get_ex_data_X509_STORE_CTX_idx()));
    auto& known = *static_cast<TlsPeer*>(SSL_get_app_data(of));
    if (accept_without_list(accepted, check) == 1) {
      // OpenSSL takes a certificate that says nothing of its role for one of every role.
      const bool in_role =
          X509_STORE_CTX_get_error_depth(check) > 0 ||
          why_not_in_role(X509_STORE_CTX_get_current_cert(check), role_of(known.own_end == TlsEnd::kClient))
              .empty();
      if (in_role) return 1;
      X509_STORE_CTX_set_error(check, X509_V_ERR_INVALID_PURPOSE);
    }
    known.refusal =
        our_refusal(X509_STORE_CTX_get_error(check), X509_STORE_CTX_get_current_cert(check), known);
    return 0;
  });
  X509_VERIFY_PARAM_set_time(
      SSL_get0_param(&ssl),
      std::chrono::duration_cast<std::chrono::seconds>(peer.now.time_since_epoch()).count());
}

Status tls_refusal(const ssl_st& ssl, const TlsIdentity& own, const TlsPeer& peer) {
  const unsigned long error = ERR_peek_error();
  const int reason = ERR_GET_LIB(error) == ERR_LIB_SSL ? ERR_GET_REASON(error) : 0;
  const std::string words = take_openssl_error();
  if (reason == SSL_R_CERTIFICATE_VERIFY_FAILED) return {Code::kPermissionDenied, "tls: " + peer.refusal};
  if (reason == SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE)
    return {Code::kPermissionDenied,
            "tls: the peer shows no certificate: it needs one of this cluster's authority"};
  if (reason > kAlertReasons && reason <= kAlertReasons + 255) {
    const std::string why = their_refusal(reason - kAlertReasons, own, peer);
    if (!why.empty()) return {Code::kPermissionDenied, "tls: " + why};
  }
  if (is_no_tls(reason) && SSL_is_init_finished(&ssl) == 0)
    return {Code::kInvalidArgument, peer.own_end == TlsEnd::kClient
                                        ? "tls: what answers there does not speak TLS"
                                        : "tls: the peer does not speak TLS"};
  // Bytes that were changed on the way fail here, too.
  return {Code::kUnavailable, "tls: " + words};
}

}  // namespace kintsugi::runtime
