/// The first exchange on a new connection: both sides prove to each other that they know the cluster secret.
///
/// ```
/// client -> server  {magic u32, version u16, 0 u16, nonce 16}
/// server -> client  {magic u32, version u16, 0 u16, nonce 16, MAC("server", both nonces)}
/// client -> server  {MAC("client", both nonces)}
/// server -> client  {verdict u8}: 1 = proven
/// ```
///
/// The role is part of what is signed, so that a proof cannot be sent back to the side that made it.
#pragma once

#include <memory>

#include <boost/asio/awaitable.hpp>

#include "common/base/status.h"
#include "common/rpc/buffered_connection.h"
#include "common/rpc/secret.h"
#include "common/runtime/runtime.h"

namespace kintsugi::rpc {

/// Errors: kPermissionDenied (secrets differ, or only one end speaks TLS), kInvalidArgument (not a Kintsugi peer, another version),
/// kDeadlineExceeded, or that of the connection; each names the peer. The caller closes the connection on any error; at
/// the deadline it is closed here.
asio::awaitable<Status> prove_as_client(const runtime::Runtime& runtime, const Secret& secret,
                                        std::shared_ptr<BufferedConnection> connection, TimePoint deadline);
asio::awaitable<Status> prove_as_server(const runtime::Runtime& runtime, const Secret& secret,
                                        std::shared_ptr<BufferedConnection> connection, TimePoint deadline);

}  // namespace kintsugi::rpc
