#include "client/mount/traced_mount.h"

#include "common/log/log.h"
#include "tracing/agent/signalled.h"
#include "tracing/agent/trace_service.h"

namespace kintsugi::mount {
namespace {

/// Commands that trace the mount at a time, and some that ask how that goes.
constexpr rpc::ServerLimits kLimits{.max_connections = 16, .max_calls_per_connection = 16};
constexpr const char* kLoopback = "127.0.0.1";

Status refuse_token(const rpc::Principal&, rpc::Method, google::protobuf::MessageLite&) {
  return {Code::kPermissionDenied,
          "a mount is traced with the cluster's secret, and with no token: it is not told which are revoked"};
}

}  // namespace

TracedMount::TracedMount(const runtime::Runtime& runtime, const rpc::Secret& secret)
    : has_token_(!secret.claims().empty()), server_(runtime, secret, nullptr, kLimits) {
  tracing::TraceService::register_on(server_, tracing::Followed::kOwnWork);
  // Their requests are let in as far as to the function that refuses them all, and says why.
  server_.refuse_tokens({});
  server_.admit_tokens_by(refuse_token);
}

void TracedMount::start() {
  tracing::listen_for_signal();
  if (has_token_) return;
  const Status started = server_.start({kLoopback, 0});
  if (!started.ok()) log::warning("this mount cannot be traced: {}", started.to_string());
  serves_ = started.ok();
}

std::string TracedMount::address() const {
  return serves_ ? server_.local_endpoint().to_string() : "";
}

asio::awaitable<void> TracedMount::stop() {
  co_await server_.stop();
}

}  // namespace kintsugi::mount
