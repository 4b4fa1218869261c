#include "common/runtime/tls/openssl_types.h"

#include <array>
#include <ctime>

#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>

#include "common/base/quote.h"

namespace kintsugi::runtime {
namespace {

constexpr size_t kMostOfASubject = 80;

}  // namespace

std::string take_openssl_error() {
  const unsigned long error = ERR_get_error();
  ERR_clear_error();
  if (error == 0) return "unknown error";
  const char* reason = ERR_reason_error_string(error);
  return reason != nullptr ? reason : fmt::format("OpenSSL error {:#x}", error);
}

int accept_without_list(int accepted, X509_STORE_CTX* check) {
  if (accepted == 1 || X509_STORE_CTX_get_error(check) != X509_V_ERR_UNABLE_TO_GET_CRL) return accepted;
  X509_STORE_CTX_set_error(check, X509_V_OK);
  return 1;
}

std::string why_not_in_role(X509* certificate, CertificateRole role) {
  if ((X509_get_extension_flags(certificate) & EXFLAG_XKUSAGE) == 0)
    return "has no extended key usage: one of a client needs clientAuth, and one of a daemon serverAuth, too";
  const uint32_t roles = X509_get_extended_key_usage(certificate);
  const bool server = (roles & XKU_SSL_SERVER) != 0, client = (roles & XKU_SSL_CLIENT) != 0;
  if (role == CertificateRole::kServer ? server : client) return "";
  if (!server && !client) return "has neither serverAuth nor clientAuth in its extended key usage";
  return client ? "is a client's: no server may show it"
                : "is only a server's: who connects needs clientAuth in the extended key usage, daemons too";
}

std::string name_of(const X509* certificate) {
  std::array<char, 256> text{};
  const int length = X509_NAME_get_text_by_NID(X509_get_subject_name(certificate), NID_commonName,
                                               text.data(), static_cast<int>(text.size()));
  if (length <= 0) return "nobody";
  return quoted(std::string_view(text.data(), static_cast<size_t>(length)), kMostOfASubject);
}

WallTime time_of(const ASN1_TIME* time) {
  std::tm parts{};
  if (ASN1_TIME_to_tm(time, &parts) != 1) return {};
  return WallTime(std::chrono::seconds(::timegm(&parts)));
}

std::string date_text(WallTime time) {
  const std::time_t seconds =
      std::chrono::duration_cast<std::chrono::seconds>(time.time_since_epoch()).count();
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  std::array<char, 32> text{};
  const size_t length = std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M UTC", &parts);
  return {text.data(), length};
}

}  // namespace kintsugi::runtime
