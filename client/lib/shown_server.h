/// Errors call the server that holds a chunk what this says.
#pragma once

#include <string>

#include "common/proto/types.pb.h"

namespace kintsugi::client {

/// "server chunkserver-3". The address is not in it: errors of the network name that, and a server whose address is not
/// known has none.
inline std::string shown_server(const proto::ChunkPlacement& place) {
  return "server " + (place.server_name().empty() ? place.address() : place.server_name());
}

}  // namespace kintsugi::client
