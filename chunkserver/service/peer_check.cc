#include "chunkserver/service/peer_check.h"

#include <memory>
#include <optional>

#include "common/proto/chunk.pb.h"
#include "common/rpc/client.h"

namespace kintsugi::chunkserver {
namespace {

asio::awaitable<void> stop_client(std::shared_ptr<rpc::Client> client) {
  co_await client->stop();
}

}  // namespace

asio::awaitable<void> PeerCheck::stop() {
  co_await tasks_.stop();
}

asio::awaitable<void> PeerCheck::run() {
  while (true) {
    // Half of the interval to one and a half, so that servers that started together drift apart.
    const auto pause = std::chrono::duration_cast<Duration>(kInterval * (0.5 + runtime_.random.fraction()));
    const bool slept = co_await tasks_.sleep_for(pause);
    if (!slept) co_return;
    if (!heartbeat_.named_peer()) continue;
    const runtime::Endpoint peer = *heartbeat_.named_peer();
    const TimePoint began = runtime_.clock.now();
    const proto::SightCheck::Outcome outcome = co_await ask(peer);
    // Whoever stood still itself meanwhile knows nothing of the peer.
    const bool stood_still = runtime_.clock.now() - began > 3 * kLimit;
    if (!stood_still && !tasks_.stopping()) recorder_.peer_checks().note(peer.to_string(), outcome);
  }
}

asio::awaitable<proto::SightCheck::Outcome> PeerCheck::ask(runtime::Endpoint peer) {
  // Shared, for the task that breaks off its calls may begin when they have ended.
  const auto client =
      std::make_shared<rpc::Client>(runtime_, secret_, rpc::ClientLimits{.dial_limit = kLimit});
  auto stopped = std::make_optional(tasks_.on_stop([&] { tasks_.spawn(stop_client(client)); }));
  proto::PingRequest request;
  const auto answered = [&]() -> asio::awaitable<bool> {
    // Without a recorder: the check is no work of the server, and its waits are nobody's evidence.
    Context context;
    context.deadline = runtime_.clock.now() + kLimit;
    proto::PingResponse response;
    const Status status = co_await client->call(context, peer, rpc::Method::kPing, request, response);
    co_return status.ok();
  };
  const bool hears = co_await answered();
  request.set_padding(std::string(kLongBytes, '\0'));
  const bool hears_all = hears && co_await answered();
  stopped.reset();
  co_await client->stop();
  co_return hears_all ? proto::SightCheck::ANSWERED
  : hears             ? proto::SightCheck::CUT
                      : proto::SightCheck::UNCONNECTED;
}

}  // namespace kintsugi::chunkserver
