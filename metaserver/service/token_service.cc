#include "metaserver/service/token_service.h"

#include "common/log/log.h"
#include "common/rpc/token.h"
#include "monitoring/sight/module.h"

namespace kintsugi::metaserver {
namespace {

constexpr sight::Site kTokenCreate{"metaserver.create_token"};
constexpr sight::Site kTokenList{"metaserver.list_tokens", {}, {"tokens"}};
constexpr sight::Site kTokenRevoke{"metaserver.revoke_token"};
constexpr sight::Site kTokensRevoked{"metaserver.revoked_tokens"};
/// With the longest paths they fit one answer.
constexpr uint32_t kListedAtOnce = 500;

bool has_expired(const proto::TokenClaims& claims, int64_t now_ns, Duration since = {}) {
  return claims.expires_ns() != 0 && claims.expires_ns() <= now_ns - since.count();
}

template <class Visit>
void for_each_token(const Reader& reader, uint64_t first, const Visit& visit) {
  keys::Range range = keys::all(keys::Kind::kToken);
  range.begin = keys::token(first);
  reader.scan(range, [&](std::string_view, std::string_view value) {
    return visit(Reader::parse<proto::StoredToken>(value));
  });
}

}  // namespace

void TokenService::register_handlers() {
  using rpc::Method;
  server_.handle<&TokenService::create>(Method::kCreateToken, *this);
  server_.handle<&TokenService::list>(Method::kListTokens, *this);
  server_.handle<&TokenService::revoke>(Method::kRevokeToken, *this);
  server_.handle<&TokenService::revoked>(Method::kRevokedTokens, *this);
}

void TokenService::load() {
  for_each_token(Reader(store_.kv), 0, [this](const proto::StoredToken& token) {
    if (token.revoked_ns() != 0) revoked_.insert(token.claims().id());
    return true;
  });
  version_ = static_cast<uint64_t>(now_ns());
  server_.refuse_tokens(revoked_);
}

std::optional<proto::StoredToken> TokenService::usable(std::string_view name) const {
  std::optional<proto::StoredToken> found;
  for_each_token(Reader(store_.kv), 0, [&](const proto::StoredToken& token) {
    const bool over = token.revoked_ns() != 0 || has_expired(token.claims(), now_ns());
    if (!over && token.claims().name() == name) found = token;
    return !found;
  });
  return found;
}

Status TokenService::make_room(Transaction& transaction, const std::string& name) {
  if (usable(name))
    return {Code::kAlreadyExists,
            fmt::format("there is a token {}: revoke it first, or give this one another name", name)};
  size_t kept = 0;
  for_each_token(Reader(store_.kv), 0, [&](const proto::StoredToken& token) {
    if (has_expired(token.claims(), now_ns(), kExpiredTokensKept))
      transaction.remove(keys::token(token.claims().id()));
    else
      ++kept;
    return true;
  });
  if (kept >= kMaxTokens)
    return {Code::kLimitExceeded,
            fmt::format("there are {} tokens: those that never expire stay on the list, also when they are "
                        "revoked",
                        kept)};
  return {};
}

asio::awaitable<Status> TokenService::create(Context context, const proto::CreateTokenRequest& request,
                                             proto::CreateTokenResponse& response) {
  sight::Module module{context, kTokenCreate};
  Transaction transaction(store_.kv);
  // Of one secret: the file may change while this waits for the disk.
  const rpc::Secret signing = secret_.each().front();
  proto::StoredToken token;
  proto::TokenClaims& claims = *token.mutable_claims();
  // Not as a whole: fields that are not known here would be signed and kept, too.
  claims.set_name(request.claims().name());
  claims.set_role(request.claims().role());
  claims.set_path(request.claims().path());
  claims.set_squash(request.claims().squash());
  claims.set_squash_uid(request.claims().squash_uid());
  claims.set_squash_gid(request.claims().squash_gid());
  Status made = rpc::check_claims(claims);
  if (made.ok() && store_.format < proto::kTokensFormat)
    made = {
        Code::kNotSupported,
        "daemons of the version before refuse tokens: run `kintsugi cluster finalize` when all are upgraded"};
  if (made.ok() && request.lifetime_seconds() > kMaxTokenSeconds)
    made = {Code::kInvalidArgument, "a token lives for 100 years at most"};
  if (made.ok()) made = make_room(transaction, claims.name());
  if (made.ok()) {
    claims.set_id(store_.runtime.random.next() | 1);
    claims.set_issued_ns(now_ns());
    claims.set_secret(signing.id());
    const auto lifetime = std::chrono::seconds(request.lifetime_seconds());
    claims.set_expires_ns(request.lifetime_seconds() == 0 ? 0 : now_ns() + Duration(lifetime).count());
    transaction.put_message(keys::token(claims.id()), token);
  }
  KINTSUGI_CO_TRY(module.finish(co_await store_.finish(module.context(), made, transaction)));
  log::info("the token {} ({:016x}) was made", claims.name(), claims.id());
  response.set_token(rpc::token_text(signing, claims.SerializeAsString()));
  *response.mutable_claims() = std::move(claims);
  co_return Status{};
}

asio::awaitable<Status> TokenService::list(Context context, const proto::ListTokensRequest& request,
                                           proto::ListTokensResponse& response) {
  sight::Module module{context, kTokenList};
  const uint32_t limit = request.limit() == 0 ? kListedAtOnce : std::min(request.limit(), kListedAtOnce);
  for_each_token(Reader(store_.kv), request.after() + 1, [&](const proto::StoredToken& token) {
    response.set_more(static_cast<uint32_t>(response.tokens_size()) == limit);
    if (!response.more()) *response.add_tokens() = token;
    return !response.more();
  });
  module.output(0, response.tokens_size());
  co_return module.finish(co_await store_.finish_read(module.context()));
}

asio::awaitable<Status> TokenService::revoke(Context context, const proto::RevokeTokenRequest& request,
                                             proto::RevokeTokenResponse& response) {
  sight::Module module{context, kTokenRevoke};
  Transaction transaction(store_.kv);
  std::optional<proto::StoredToken> token = usable(request.name());
  const Status found =
      token ? Status{} : Status{Code::kNotFound, "there is no token of that name that may still be used"};
  if (token) {
    token->set_revoked_ns(now_ns());
    transaction.put_message(keys::token(token->claims().id()), *token);
  }
  KINTSUGI_CO_TRY(module.finish(co_await store_.finish(module.context(), found, transaction)));
  revoked_.insert(token->claims().id());
  ++version_;
  server_.refuse_tokens(revoked_);
  log::info("the token {} ({:016x}) is revoked", token->claims().name(), token->claims().id());
  *response.mutable_claims() = std::move(*token->mutable_claims());
  co_return Status{};
}

asio::awaitable<Status> TokenService::revoked(Context context, const proto::RevokedTokensRequest& request,
                                              proto::RevokedTokensResponse& response) {
  sight::Module module{context, kTokensRevoked};
  response.set_version(version_);
  if (request.known() != version_) response.mutable_ids()->Add(revoked_.begin(), revoked_.end());
  co_return module.finish({});
}

}  // namespace kintsugi::metaserver
