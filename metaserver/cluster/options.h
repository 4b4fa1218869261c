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
  uint32_t root_uid = 0, root_gid = 0;          ///< who owns the root directory when the cluster is made
  uint64_t chunk_bytes = 64ull << 20;           ///< largest chunk; 1 to 256 MiB
  uint64_t inline_bytes = 1ull << 30;  ///< bytes of small writes that the metadata keeps, at most; 0: none
  Duration heartbeat_interval = 1s;
  Duration suspect_after = 3s;  ///< without a heartbeat
  Duration dead_after = 10s;    ///< without a heartbeat; also the grace period after a start
  Duration upload_idle = 40s;   ///< without a word from its client an upload is given up
  Duration upload_ttl = 1h;  ///< the life of a ticket; so long it is remembered that an upload was given up
  Duration read_capability_life = 1h;
  Duration quarantine_retention = 72h;  ///< of running metaservers; then a chunk that nobody names is deleted
  sight::Recorder* recorder = nullptr;

  /// kInvalidArgument names the setting and its limits.
  Status check() const;
};

}  // namespace kintsugi::metaserver
