/// Serves one connection of a server, from the handshake to its end.
#pragma once

#include <memory>

#include <boost/asio/awaitable.hpp>

#include "common/rpc/buffered_connection.h"
#include "common/rpc/server_core.h"

namespace kintsugi::rpc {

/// Serves a connection: the handshake, then requests until it ends. Logs why, unless the peer simply left. The core outlives it.
asio::awaitable<void> serve_connection(ServerCore& core, std::shared_ptr<BufferedConnection> connection);

}  // namespace kintsugi::rpc
