/// Notices that the process of a chunkserver has ended, before its silence tells.
#pragma once

#include <map>
#include <set>

#include <boost/asio/awaitable.hpp>

#include "common/rpc/client.h"
#include "common/runtime/event.h"
#include "common/runtime/task_group.h"
#include "metaserver/cluster/server_registry.h"

namespace kintsugi::metaserver {

/// When the connection of a server's last word ends, the server is called at its own address: one that does not answer
/// there is suspect from then on (ServerRegistry::suspect), which the next heartbeat takes back. A connection that
/// broke alone means nothing. Memory: one entry for each server that has a connection.
class ServerWatch {
 public:
  static constexpr Duration kCallLimit = std::chrono::milliseconds(500);
  /// Calls at a time. Further ones wait up to kTurnLimit; then only missing heartbeats decide.
  static constexpr size_t kCallsAtOnce = 64;
  static constexpr Duration kTurnLimit = std::chrono::seconds(3);

  /// `runtime` and `servers` outlive it.
  ServerWatch(const runtime::Runtime& runtime, const rpc::Secret& secret, ServerRegistry& servers);

  /// The server registered or sent a heartbeat, and was believed. `connection` is Context::connection of that call; 0
  /// is not watched.
  void heard(ServerId server, uint64_t connection);
  void connection_ended(uint64_t connection);
  /// Ends calls that run, and waits for them.
  asio::awaitable<void> stop();

 private:
  asio::awaitable<void> look_after(ServerId server);
  asio::awaitable<Status> call(ServerId server);

  ServerRegistry& servers_;
  runtime::Clock& clock_;
  rpc::Client client_;
  runtime::Semaphore turns_;
  /// Connection over which each server last called, while it is open.
  std::map<ServerId, uint64_t> last_;
  std::map<uint64_t, std::set<ServerId>> by_connection_;  ///< inverse of `last_`
  runtime::TaskGroup tasks_;
};

}  // namespace kintsugi::metaserver
