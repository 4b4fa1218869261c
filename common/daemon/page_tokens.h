/// Pages over the network, for readers that are no hosts of the cluster: they show a token.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "common/http/page_guard.h"
#include "common/rpc/secret.h"
#include "common/rpc/token.h"

namespace kintsugi::daemon {

class Daemon;

/// The token of an Authorization field: "Bearer TOKEN", or "Basic" with the token as the password, as browsers send it.
std::optional<std::string> token_of(std::string_view authorization);
/// The token of "Bearer TOKEN" alone: browsers send a password that they have learnt unasked, also for pages of others.
std::optional<std::string> bearer_token_of(std::string_view authorization);
/// kPermissionDenied: this is no token of the cluster. Its time, and whether it is revoked, are not looked at.
Result<rpc::Principal> reader_of(const rpc::Secret& cluster, std::string_view token);
/// kPermissionDenied: a page with this path needs another role. Metrics and targets need that of readers, others, which
/// name files, clients and what they wait for, administrators. None is for a token with a path.
Status check_page(const rpc::Principal& reader, std::string_view path);

class PageTokens final : public http::PageGuard {
 public:
  /// Both outlive it, and the daemon is there before a page is asked for.
  PageTokens(const rpc::Secret& cluster, const std::unique_ptr<Daemon>& daemon)
      : cluster_(cluster), daemon_(daemon) {}

  Status admit(std::string_view path, std::string_view authorization,
               runtime::PeerProof shown) const override;

 private:
  const rpc::Secret& cluster_;
  const std::unique_ptr<Daemon>& daemon_;  ///< it knows which tokens are revoked
};

}  // namespace kintsugi::daemon
