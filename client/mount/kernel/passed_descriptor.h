/// A descriptor that one process gives to another through a socket.
#pragma once

#include <string_view>

#include "common/base/status.h"

namespace kintsugi::mount {

/// Sends one byte, and the descriptor with it. The caller keeps its own.
Status send_descriptor(int socket, int descriptor);
/// Receives what send_descriptor() or fusermount3 sent; the caller owns it. kIoError: `from` sent none.
Result<int> receive_descriptor(int socket, std::string_view from);

}  // namespace kintsugi::mount
