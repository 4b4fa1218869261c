/// Asks another server every few seconds, by a connection of its own, whether it hears. The connections on which servers
/// work may continue for days while new ones are dropped, or while messages beyond some size vanish: only commands that
/// end would notice, and they take what they know with them.
#pragma once

#include <boost/asio/awaitable.hpp>

#include "chunkserver/service/heartbeat.h"
#include "common/rpc/secret.h"
#include "common/runtime/runtime.h"
#include "common/runtime/task_group.h"
#include "monitoring/sight/recorder.h"

namespace kintsugi::chunkserver {

class PeerCheck {
 public:
  static constexpr Duration kInterval = std::chrono::seconds(5);  ///< mean pause between two checks
  static constexpr Duration kLimit = std::chrono::seconds(2);  ///< longest wait for each of the two answers
  /// The long message, which needs many packets each way.
  static constexpr size_t kLongBytes = 64 << 10;

  /// References outlive it. The peers are those that heartbeats are told of; what came of it is noted by the
  /// recorder, and reported to the monitor.
  PeerCheck(const runtime::Runtime& runtime, rpc::Secret secret, sight::Recorder& recorder,
            const Heartbeat& heartbeat)
      : runtime_(runtime), secret_(secret), recorder_(recorder), heartbeat_(heartbeat), tasks_(runtime) {}

  void start() { tasks_.spawn(run()); }
  asio::awaitable<void> stop();

 private:
  asio::awaitable<void> run();
  asio::awaitable<proto::SightCheck::Outcome> ask(runtime::Endpoint peer);

  const runtime::Runtime& runtime_;
  const rpc::Secret secret_;
  sight::Recorder& recorder_;
  const Heartbeat& heartbeat_;
  runtime::TaskGroup tasks_;
};

}  // namespace kintsugi::chunkserver
