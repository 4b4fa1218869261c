/// The RPCs about tokens: they are made, listed and revoked here, and daemons learn here which ones they are to refuse.
#pragma once

#include <unordered_set>

#include "common/proto/token.pb.h"
#include "common/rpc/secret.h"
#include "common/rpc/server.h"
#include "metaserver/service/meta_store.h"

namespace kintsugi::metaserver {

inline constexpr size_t kMaxTokens = 10'000;
/// A token that has expired so long ago is forgotten when the next one is made.
inline constexpr Duration kExpiredTokensKept = std::chrono::hours(24 * 30);
inline constexpr uint64_t kMaxTokenSeconds = uint64_t{100} * 365 * 86'400;

/// One function for each RPC. The keys are not kept anywhere: they follow from the claims and the secret.
class TokenService {
 public:
  /// References outlive it.
  TokenService(MetaStore& store, rpc::Secret secret, rpc::Server& server)
      : store_(store), secret_(std::move(secret)), server_(server) {}
  void register_handlers();
  /// Reads what is stored; until then the server refuses all tokens.
  void load();

 private:
  asio::awaitable<Status> create(Context context, const proto::CreateTokenRequest& request,
                                 proto::CreateTokenResponse& response);
  asio::awaitable<Status> list(Context context, const proto::ListTokensRequest& request,
                               proto::ListTokensResponse& response);
  asio::awaitable<Status> revoke(Context context, const proto::RevokeTokenRequest& request,
                                 proto::RevokeTokenResponse& response);
  asio::awaitable<Status> revoked(Context context, const proto::RevokedTokensRequest& request,
                                  proto::RevokedTokensResponse& response);

  int64_t now_ns() const { return store_.runtime.clock.wall_now().time_since_epoch().count(); }
  /// Its name is free, and there is room for one more. Old ones are forgotten.
  Status make_room(Transaction& transaction, const std::string& name);
  /// The token of that name that may still be used.
  std::optional<proto::StoredToken> usable(std::string_view name) const;

  MetaStore& store_;
  const rpc::Secret secret_;
  rpc::Server& server_;
  std::unordered_set<uint64_t> revoked_;
  uint64_t version_ = 0;  ///< version of revoked_: grows, and begins with the time of the start
};

}  // namespace kintsugi::metaserver
