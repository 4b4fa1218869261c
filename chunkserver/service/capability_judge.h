/// Judges whether a caller may do what it asks for with a chunk.
#pragma once

#include <string>

#include "common/base/ids.h"
#include "common/base/status.h"
#include "common/rpc/metaserver_clock.h"
#include "common/rpc/secret.h"

namespace kintsugi::chunkserver {

/// Capabilities are signed with the cluster's secret, and end by the metaserver's clock. References outlive it.
struct CapabilityJudge {
  const rpc::Secret& secret;
  const rpc::MetaserverClock& clock;

  /// kPermissionDenied: the capability does not give the right to that `operation` on the chunk.
  Status check(const std::string& capability, ChunkId id, uint32_t operation) const {
    return rpc::check_capability(secret, capability, id, operation, clock.now());
  }
};

}  // namespace kintsugi::chunkserver
