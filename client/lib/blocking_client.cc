#include "client/lib/blocking_client.h"

#include <unistd.h>

namespace kintsugi::client {

namespace {

/// A client that ends sooner is not reported.
constexpr Duration kQuiet = 2s;

}  // namespace

std::unique_ptr<sight::Observer> BlockingClient::observe(runtime::ProductionRuntime& runtime,
                                                         const sight::Recorder& recorder,
                                                         const Options& options, const rpc::Secret& secret) {
  const auto who = [name = fmt::format("client {}", ::getpid())] {
    return sight::Reporting{.kind = "client", .name = name};
  };
  return std::make_unique<sight::Observer>(
      runtime, recorder, secret,
      sight::ObserverOptions{
          .metaserver = options.metaserver, .who = who, .sample_stacks = false, .quiet_for = kQuiet});
}

}  // namespace kintsugi::client
