/// Judges whether a caller may do what it asks for with a chunk.
#pragma once

#include <string>

#include <fmt/format.h>

#include "chunkserver/store/disk/identity.h"
#include "common/base/ids.h"
#include "common/base/status.h"
#include "common/rpc/metaserver_clock.h"
#include "common/rpc/secret.h"

namespace kintsugi::chunkserver {

/// Capabilities are signed with the cluster's secret, and end by the metaserver's clock. References outlive it.
struct CapabilityJudge {
  const rpc::Secret& secret;
  const rpc::MetaserverClock& clock;
  const Identity& identity;

  /// Checks the right to `operation` on the chunk. kPermissionDenied: the capability does not give it.
  Status check(const std::string& capability, ChunkId id, uint32_t operation) const {
    return rpc::check_capability(secret, capability, id, operation, clock.now());
  }
  /// Checks the right to store the chunk here. kUnavailable: it is another server that is to have it, one that was at
  /// this address before. `server_id` 0: the caller does not say which.
  Status check_store(const std::string& capability, ChunkId id, uint64_t server_id) const {
    if (server_id != 0 && ServerId{server_id} != identity.server)
      return {Code::kUnavailable, fmt::format("chunk {} is for server {}; at its address is server {} now",
                                              id, ServerId{server_id}, identity.server)};
    return check(capability, id, rpc::kOpWrite);
  }
};

}  // namespace kintsugi::chunkserver
