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
  /// Policy of the root directory, set when the cluster is made.
  std::string default_policy = "rs-6-3-1024k";
  uint32_t root_uid = 0, root_gid = 0;  ///< owner of the root directory, set when the cluster is made
  uint64_t chunk_bytes = 64ull << 20;   ///< size limit of a chunk; 1 to 256 MiB
  /// Limit for the bytes of small writes that are kept with the metadata; 0: none.
  uint64_t inline_bytes = 1ull << 30;
  Duration heartbeat_interval = 1s;
  Duration suspect_after = 3s;  ///< time without a heartbeat after which a server is suspect
  /// Time without a heartbeat after which a server is dead; also the grace period after a start.
  Duration dead_after = 10s;
  /// An upload is aborted when its client was silent for this long.
  Duration upload_idle = 40s;
  /// Lifetime of a ticket. An aborted upload is remembered for as long.
  Duration upload_ttl = 1h;
  /// A chunk that nobody names is deleted after metaservers have run for this long since it was found.
  Duration quarantine_retention = 72h;
  std::string http_address;  ///< address of this daemon's pages, for those who ask; empty: it has none
  sight::Recorder* recorder = nullptr;

  /// kInvalidArgument names the setting and its limits.
  Status check() const;
};

}  // namespace kintsugi::metaserver
