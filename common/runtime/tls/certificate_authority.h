/// Makes the certificates of a cluster: that of its authority, and those that the authority signs.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/runtime/clock.h"

struct evp_pkey_st;
struct x509_st;

namespace kintsugi::runtime {

/// A certificate and its key, as PEM.
struct CertifiedKey {
  std::string certificate, key;
};

struct CertificateWish {
  std::string name;                ///< the owner, for people
  std::vector<std::string> hosts;  ///< names and addresses at which a server answers; none: it is a client's
  WallTime valid_from, valid_until;
};

class CertificateAuthority {
 public:
  /// A new authority with a new key. kInvalidArgument: the name is empty or longer than 64 bytes.
  static Result<CertificateAuthority> make(const std::string& name, WallTime valid_from,
                                           WallTime valid_until);
  /// kInvalidArgument: `own` is no PEM, or not of one pair.
  static Result<CertificateAuthority> load(const CertifiedKey& own);

  ~CertificateAuthority();
  CertificateAuthority(CertificateAuthority&& other) noexcept;
  CertificateAuthority& operator=(CertificateAuthority&&) = delete;

  CertifiedKey own() const;
  /// A new key, and the certificate for it. A certificate without hosts serves only who dials. kInvalidArgument: a name
  /// or a host that no certificate can hold.
  Result<CertifiedKey> issue(const CertificateWish& wish) const;
  /// A list that revokes these certificates (PEM), as PEM, to stand in tls.authority after the authority. It replaces
  /// all lists of the authority before.
  Result<std::string> revoke(const std::vector<std::string>& certificates, WallTime now) const;

 private:
  CertificateAuthority(x509_st* certificate, evp_pkey_st* key) : certificate_(certificate), key_(key) {}

  x509_st* certificate_;
  evp_pkey_st* key_;
};

}  // namespace kintsugi::runtime
