/// The network, with every byte that passes counted, and dialled streams told the rate of the link.
#pragma once

#include <functional>

#include "chunkserver/service/traffic.h"
#include "common/runtime/network.h"

namespace kintsugi::chunkserver {

/// What it is made from outlives it, and it the connections and listeners.
class MeteredNetwork final : public runtime::Network {
 public:
  MeteredNetwork(runtime::Network& network, const runtime::Clock& clock, LinkTraffic& traffic)
      : network_(network), meter_{clock, traffic} {}

  /// Bytes a second that this server can receive; 0: not known yet.
  std::function<uint64_t()> down_rate = [] { return uint64_t{0}; };

  asio::awaitable<Result<std::unique_ptr<runtime::Connection>>> dial(runtime::Endpoint to,
                                                                     TimePoint deadline) override;
  Result<std::unique_ptr<runtime::Listener>> listen(runtime::Endpoint at) override;

 private:
  struct Meter {
    const runtime::Clock& clock;
    LinkTraffic& traffic;
  };
  class MeteredConnection;
  class MeteredListener;

  runtime::Network& network_;
  Meter meter_;
};

}  // namespace kintsugi::chunkserver
