/// Errors call the server that holds a chunk what this says.
#pragma once

#include <string>

#include "common/proto/types.pb.h"

namespace kintsugi::client {

/// "server chunkserver-3 at 127.0.0.1:7103"; a server that is called by its address is not named twice.
inline std::string shown_server(const proto::ChunkPlacement& place) {
  const bool has_name = !place.server_name().empty() && place.server_name() != place.address();
  return has_name ? "server " + place.server_name() + " at " + place.address() : "server " + place.address();
}

}  // namespace kintsugi::client
