/// How a daemon learns which tokens it is to refuse: it asks the metaserver every few seconds.
#pragma once

#include <boost/asio/awaitable.hpp>

#include "common/rpc/client.h"
#include "common/rpc/secret.h"
#include "common/rpc/server.h"
#include "common/runtime/runtime.h"
#include "common/runtime/task_group.h"

namespace kintsugi::daemon {

/// Until the first answer the server refuses all tokens, and while the metaserver is away what it said last holds. A daemon
/// that cannot ask is no place where a revoked token opens anything for long: what is read there wants capabilities, which
/// the metaserver gives and which end.
class Revocations {
 public:
  static constexpr Duration kInterval = std::chrono::seconds(2);

  /// References outlive it.
  Revocations(const runtime::Runtime& runtime, const rpc::Secret& secret, runtime::Endpoint metaserver,
              rpc::Server& server);

  void start() { tasks_.spawn(follow()); }
  asio::awaitable<void> stop();

 private:
  asio::awaitable<void> follow();

  const runtime::Runtime runtime_;
  const runtime::Endpoint metaserver_;
  rpc::Server& server_;
  rpc::Client client_;
  runtime::TaskGroup tasks_;
  uint64_t version_ = 0;
};

}  // namespace kintsugi::daemon
