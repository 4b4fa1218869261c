/// The contents of a chunkserver's heartbeats: disks, space, load, changes of the cache, and chunks that were lost.
#pragma once

#include <deque>
#include <functional>

#include "chunkserver/service/cache_report.h"
#include "chunkserver/service/load_report.h"
#include "chunkserver/store/chunk_store.h"
#include "common/proto/meta.pb.h"

namespace kintsugi::chunkserver {

/// Everything in it is known already: no disk is asked, so that one that hangs does not make the server look dead.
class Heartbeat {
 public:
  static constexpr size_t kMaxLost =
      1000;  ///< told in one heartbeat; the next one follows at once while there are more

  /// References outlive it. `cpu_seconds` gives what this process used so far; it may be empty.
  Heartbeat(const runtime::Clock& clock, const ServiceCounters& counters, ChunkStore& store,
            const LinkRates& rates, std::function<double()> cpu_seconds);

  /// The metaserver knows nothing of the cache: the next heartbeat begins anew.
  void restate() { cache_.restate(); }
  /// Fills in everything but who the server is.
  void fill(proto::HeartbeatRequest& request);
  /// The metaserver has taken this heartbeat. Without this call, what was in it is told again.
  void delivered(const proto::HeartbeatRequest& request);
  /// Lost chunks wait to be told: those of a disk that failed must not count as healthy for minutes.
  bool more_to_tell() const { return !lost_.empty(); }

 private:
  void fill_disks(proto::HeartbeatRequest& request) const;

  ChunkStore& store_;
  LoadReport load_;
  CacheReport cache_;
  std::deque<ChunkInfo> lost_;  ///< chunks that the metaserver does not know to be lost
};

/// How chunks are named in heartbeats and block reports.
void fill(proto::ReportedChunk& out, const ChunkInfo& chunk);

}  // namespace kintsugi::chunkserver
