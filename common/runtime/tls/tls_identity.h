/// What a process shows to other hosts, and whom it believes: a certificate, its key, and the cluster's authority.
#pragma once

#include <memory>
#include <string>

#include "common/base/status.h"
#include "common/runtime/clock.h"

struct ssl_ctx_st;

namespace kintsugi::runtime {

/// Paths of PEM files.
struct TlsFiles {
  std::string certificate;  ///< may hold the certificates of intermediate authorities, too
  std::string key;          ///< readable by its owner alone, without a password
  /// May hold several authorities, as while one follows another, and lists of revocations.
  std::string authority;

  bool none() const { return certificate.empty() && key.empty() && authority.empty(); }
  bool operator==(const TlsFiles&) const = default;
};

/// Never changes. Connections share it; any thread may use it.
class TlsIdentity {
 public:
  /// kInvalidArgument, or what reading says: a file is missing, is not PEM or empty, the key is another certificate's or
  /// may be read by others, the certificate is not one of the authority, or not for clients, which every program is. A
  /// certificate that is not valid now is none of these: it may become valid, and whoever has it should be able to say so.
  static Result<std::shared_ptr<const TlsIdentity>> load(const TlsFiles& files);

  ~TlsIdentity();
  TlsIdentity(const TlsIdentity&) = delete;
  TlsIdentity& operator=(const TlsIdentity&) = delete;

  const std::string& name() const { return name_; }  ///< the owner of the certificate
  WallTime valid_from() const { return valid_from_; }
  WallTime expires() const { return expires_; }
  /// When the last of the authorities expires.
  WallTime authority_expires() const { return authority_expires_; }
  /// Empty while the certificate is valid, else a sentence on that.
  std::string why_not_valid(WallTime now) const;

  /// Empty when others accept it for a server at this name or address, else a sentence on that.
  std::string why_not_for(const std::string& host) const;

  ssl_ctx_st* context() const { return context_; }

 private:
  TlsIdentity() = default;

  ssl_ctx_st* context_ = nullptr;
  std::string name_;
  WallTime valid_from_, expires_, authority_expires_;
};

}  // namespace kintsugi::runtime
