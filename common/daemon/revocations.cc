#include "common/daemon/revocations.h"

#include "common/proto/token.pb.h"

namespace kintsugi::daemon {
namespace {

constexpr Duration kCallLimit = std::chrono::seconds(2);
constexpr Duration kIntervalAtFirst = std::chrono::milliseconds(50);

}  // namespace

Revocations::Revocations(const runtime::Runtime& runtime, const rpc::Secret& secret,
                         runtime::Endpoint metaserver, rpc::Server& server)
    : runtime_(runtime),
      metaserver_(std::move(metaserver)),
      server_(server),
      client_(runtime, secret, {.dial_limit = kCallLimit}),
      tasks_(runtime) {}

asio::awaitable<void> Revocations::follow() {
  do {
    proto::RevokedTokensRequest request;
    proto::RevokedTokensResponse response;
    request.set_known(version_);
    const Context limited = Context{}.with_deadline(runtime_.clock.now() + kCallLimit);
    const Status asked =
        co_await client_.call(limited, metaserver_, rpc::Method::kRevokedTokens, request, response);
    // A failure is not logged: the daemon's other calls to the metaserver fail, too, and log it.
    if (!asked.ok() || response.version() == version_) continue;
    version_ = response.version();
    server_.refuse_tokens({response.ids().begin(), response.ids().end()});
    // Until the first answer all tokens are refused here: a daemon that starts before the metaserver asks again soon.
  } while (co_await tasks_.sleep_for(version_ == 0 ? kIntervalAtFirst : kInterval));
}

asio::awaitable<void> Revocations::stop() {
  tasks_.request_stop();
  co_await client_.stop();
  co_await tasks_.join();
}

}  // namespace kintsugi::daemon
