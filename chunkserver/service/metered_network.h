/// The network with a meter: counts every byte that passes, and tells dialled connections the rate of the link.
#pragma once

#include <functional>

#include "chunkserver/service/traffic.h"
#include "common/runtime/network.h"

namespace kintsugi::chunkserver {

/// Constructor arguments outlive it, and it outlives its connections and listeners.
class MeteredNetwork final : public runtime::Network {
 public:
  MeteredNetwork(runtime::Network& network, const runtime::Clock& clock, LinkTraffic& traffic)
      : network_(network), meter_{clock, traffic} {}

  /// Asked at each dial, and once a second while bytes come in, for the bytes a second that this server can receive; 0:
  /// not known yet.
  std::function<uint64_t()> down_rate = [] { return uint64_t{0}; };

  asio::awaitable<Result<std::unique_ptr<runtime::Connection>>> dial(runtime::Endpoint to, TimePoint deadline,
                                                                     runtime::TaskGroup* stops_with) override;
  Result<std::unique_ptr<runtime::Listener>> listen(runtime::Endpoint at) override;

 private:
  struct Meter {
    const runtime::Clock& clock;
    LinkTraffic& traffic;
  };
  class MeteredConnection;
  class DialledConnection;
  class MeteredListener;

  runtime::Network& network_;
  Meter meter_;
};

}  // namespace kintsugi::chunkserver
