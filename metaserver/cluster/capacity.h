/// How much room a cluster has. Servers may share devices, as those of a local cluster do: every device counts once.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "erasure/policy.h"

namespace kintsugi::metaserver {

struct DeviceSpace {
  /// Identifies the device over all machines; 0: unknown, and so different from all others.
  uint64_t device = 0;
  uint64_t total_bytes = 0, free_bytes = 0;
};

struct ServerSpace {
  std::vector<DeviceSpace> devices;
  bool takes_chunks = true;  ///< new chunks may be placed on the server
};

struct Capacity {
  uint64_t total_bytes = 0, free_bytes = 0;
  /// Bytes of large files that can still be stored: each stripe needs as many different servers as it has chunks, so
  /// that a few large servers beside small ones cannot be filled. Servers that share a device have equal shares of it.
  uint64_t storable_bytes = 0;
};

Capacity capacity_of(std::span<const ServerSpace> servers, const erasure::Policy& policy);

}  // namespace kintsugi::metaserver
