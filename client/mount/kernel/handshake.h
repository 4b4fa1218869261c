/// INIT: what the kernel offers, what we want, what both have.
#pragma once

#include <span>

#include "client/mount/kernel/file_system.h"
#include "client/mount/kernel/protocol.h"

namespace kintsugi::mount {

struct HandshakeOptions {
  uint32_t max_write_bytes = 1 << 20;  ///< the kernel's own limit is 1 MiB (256 pages)
  /// Read-ahead and asynchronous direct requests that the kernel has in flight.
  uint16_t max_background = 64;
  uint32_t max_readahead_bytes = 1 << 20;
};

struct Handshake {
  fuse_init_out answer{};
  /// The kernel is of another major version: it gets the answer and sends INIT again.
  bool again = false;
  Negotiated negotiated;
};

/// `body` is the request without its header. kInvalidArgument: no INIT. kNotSupported: the kernel is too old.
Result<Handshake> shake_hands(std::span<const std::byte> body, const HandshakeOptions& options);

}  // namespace kintsugi::mount
