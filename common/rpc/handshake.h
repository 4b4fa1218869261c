/// The first exchange on a new connection: both sides prove to each other that they know the cluster secret, or the key of
/// the client's token.
///
/// ```
/// client -> server  {magic u32, version u16, claims bytes u16, nonce 16}, {claims}
/// server -> client  {magic u32, version u16, 0 u16, nonce 16, MAC("server", both nonces)}
/// client -> server  {MAC("client", both nonces)}
/// server -> client  {verdict u8}: 1 = proven; 2 = proven, and refused: {code u8, length u16, sentence}
/// ```
///
/// Each end says the newest version that it speaks, the server none that is newer than the client's. That one is spoken,
/// when both know it; it is signed with the rest of the hello.
///
/// The last four bytes of the client's nonce hint at which key it has: they are a MAC of its hello's other bytes. An end
/// that accepts two secrets proves with the one that the hint fits, and a client answers with the one that the server
/// proved with, so that all ends that share a secret understand each other. A client of a build before hints gets a proof by
/// the older secret.
///
/// The role is part of what is signed, so that a proof cannot be sent back to the side that made it. Who has the secret
/// sends no claims. With claims both sides use the key that follows from them (token.h). A token that has expired or is
/// revoked is told so only after its holder has proven that it has the key.
#pragma once

#include <memory>

#include <boost/asio/awaitable.hpp>

#include "common/base/status.h"
#include "common/rpc/buffered_connection.h"
#include "common/rpc/secret.h"
#include "common/rpc/token.h"
#include "common/runtime/runtime.h"

namespace kintsugi::rpc {

/// The oldest version of frame.h's kVersion that is still spoken.
inline constexpr uint16_t kOldestVersion = 2;

/// Errors: kPermissionDenied (secrets differ, the token is refused, or only one end speaks TLS), kInvalidArgument (not a
/// Kintsugi peer, another version), kUnavailable (the server does not know yet which tokens are revoked, or the peer has
/// too many connections), kDeadlineExceeded, or that of the connection. Those of a client name the peer. The caller
/// closes the connection on any error; at the deadline it is closed here.
asio::awaitable<Status> prove_as_client(const runtime::Runtime& runtime, const Secret& secret,
                                        std::shared_ptr<BufferedConnection> connection, TimePoint deadline);
/// Who a server lets in of those who have proven themselves.
class Doorkeeper {
 public:
  virtual ~Doorkeeper() = default;
  /// Not ok: it is refused for this reason, which it is told.
  virtual Status check(const Principal& by, const std::string& address) = 0;
};

/// Who has proven itself, and with which secret. REQUIRES: `secret` is the cluster's.
asio::awaitable<Result<Principal>> prove_as_server(const runtime::Runtime& runtime, const Secret& secret,
                                                   Doorkeeper& doorkeeper,
                                                   std::shared_ptr<BufferedConnection> connection,
                                                   TimePoint deadline);

}  // namespace kintsugi::rpc
