#include "common/rpc/secret_status.h"

namespace kintsugi::rpc {
namespace {

proto::SecretStatusResponse::Other on_the_wire(SecretKeys::Other other) {
  switch (other) {
    case SecretKeys::Other::kNone: return proto::SecretStatusResponse::NONE;
    case SecretKeys::Other::kNext: return proto::SecretStatusResponse::NEXT;
    case SecretKeys::Other::kFormer: return proto::SecretStatusResponse::FORMER;
  }
  return proto::SecretStatusResponse::NONE;
}

}  // namespace

asio::awaitable<Status> SecretStatus::operator()(Context, const proto::Empty&,
                                                 proto::SecretStatusResponse& response) {
  secret_.shared().look_at_once();
  const std::vector<Secret> secrets = secret_.each();
  response.set_in_use(secrets.front().id());
  response.set_other_is(on_the_wire(secret_.keys()->other_is));
  if (secrets.size() > 1) response.set_other(secrets.back().id());
  response.set_in_use_seconds(to_seconds(clock_.wall_now() - secret_.shared().in_use_since()));
  response.set_signed_seconds(to_seconds(signed_for_));
  response.set_complaint(secret_.shared().complaint());
  uses_->tell(response.in_use(), clock_.now(), response);
  co_return Status{};
}

}  // namespace kintsugi::rpc
