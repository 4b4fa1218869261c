/// Where a mount is asked to trace itself (`kintsugi trace attach DIRECTORY`).
#pragma once

#include <string>

#include <boost/asio/awaitable.hpp>

#include "common/rpc/server.h"

namespace kintsugi::mount {

/// Serves calls of kintsugi trace, and no other ones, on the loopback interface: a client's host shows no port to the network.
/// Whoever calls proves the cluster's secret. A mount with a token knows none that others could prove, so it serves nothing.
class TracedMount {
 public:
  TracedMount(const runtime::Runtime& runtime, const rpc::Secret& secret);

  /// Also listens for the signal to record itself. Logs an error, and does not return it: a mount that cannot be traced works all the same.
  void start();
  /// Where it serves; empty: nowhere.
  std::string address() const;
  asio::awaitable<void> stop();

 private:
  const bool has_token_;
  bool serves_ = false;
  rpc::Server server_;
};

}  // namespace kintsugi::mount
