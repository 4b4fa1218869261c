#include "client/lib/operations/cluster_client.h"

#include "common/base/assert.h"

namespace kintsugi::client {

ClusterClient::ClusterClient(const runtime::Runtime& runtime, Options options, rpc::Secret secret)
    : resources_(runtime, std::move(options), secret), session_(resources_.runtime.random.next() | 1) {
  KINTSUGI_ASSERT(resources_.options.memory_bytes >= kMinMemoryBytes);
}

asio::awaitable<Status> ClusterClient::tell(rpc::Method method, std::unique_ptr<const Message> request,
                                            Repeat repeat, Duration limit) {
  proto::Empty nothing;
  co_return co_await resources_.meta.call(context(), method, *request, nothing, repeat, limit);
}

void ClusterClient::cancel() {
  if (resources_.background.stopping()) return;
  // Waits between attempts end, and with the connections all streams and calls.
  resources_.background.request_stop();
  resources_.background.spawn(resources_.rpc.stop());
}

asio::awaitable<void> ClusterClient::stop() {
  cancel();
  co_await resources_.background.join();
}

}  // namespace kintsugi::client
