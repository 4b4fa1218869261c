/// The settings of a metaserver.
#pragma once

#include <string>

#include "common/base/status.h"
#include "common/runtime/clock.h"
#include "common/runtime/network.h"

namespace kintsugi::sight {
class Recorder;
}

namespace kintsugi::metaserver {

struct MetaServerOptions {
  runtime::Endpoint listen{"127.0.0.1", 0};
  std::string default_policy = "rs-6-3-1024k";  ///< given to the root directory when the cluster is made
  uint64_t chunk_bytes = 64ull << 20;           ///< largest chunk; 1 to 256 MiB
  Duration heartbeat_interval = 1s;
  Duration suspect_after = 3s;  ///< without a heartbeat
  Duration dead_after = 10s;    ///< without a heartbeat; also the grace period after a start
  Duration upload_ttl = 1h;     ///< an idle upload, and each ticket, lives for so long
  Duration read_capability_life = 1h;
  sight::Recorder* recorder = nullptr;

  /// kInvalidArgument names the setting and its limits.
  Status check() const;
};

}  // namespace kintsugi::metaserver
