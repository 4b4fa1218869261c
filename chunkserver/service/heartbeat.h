/// The contents of a chunkserver's heartbeats (disks, space, load, changes of the cache, chunks that were lost, orders
/// that are done), and what their answers ask for.
#pragma once

#include <deque>
#include <optional>

#include "chunkserver/service/cache_report.h"
#include "chunkserver/service/deletion_orders.h"
#include "chunkserver/service/link_probe.h"
#include "chunkserver/service/load_report.h"
#include "chunkserver/store/chunk_store.h"
#include "common/proto/meta.pb.h"

namespace kintsugi::chunkserver {

/// Everything in it is known already: no disk is asked, so that one that hangs does not make the server look dead.
class Heartbeat {
 public:
  /// Losses reported in one heartbeat; the next heartbeat follows at once while more are left.
  static constexpr size_t kMaxLost = 1000;

  /// References outlive it.
  Heartbeat(const runtime::Clock& clock, ChunkStore& store, LoadReport& load, const sight::Recorder& recorder,
            DeletionOrders& orders, LinkProber& prober);

  /// The metaserver knows nothing of the cache, nor of its orders: the next heartbeat begins anew.
  void restate();
  /// Fills in everything but who the server is.
  void fill(proto::HeartbeatRequest& request);
  /// The metaserver has taken this heartbeat. Without this call, what was in it is told again.
  void delivered(const proto::HeartbeatRequest& request);
  /// Does what the answer asks for: chunks are deleted, and another server is probed. Whether this server is to
  /// register or to report again is the caller's.
  void obey(const proto::HeartbeatResponse& response);
  /// A disk hung when chunks of it were to be deleted, and answers again: true once. A block report names what is
  /// still there.
  bool take_kept() { return orders_.take_kept(); }
  /// Another server, which the metaserver named last.
  const std::optional<runtime::Endpoint>& named_peer() const { return named_peer_; }
  /// Lost chunks wait to be told: those of a disk that failed must not count as healthy for minutes.
  bool more_to_tell() const { return !lost_.empty(); }

 private:
  void fill_disks(proto::HeartbeatRequest& request) const;

  ChunkStore& store_;
  LoadReport& load_;
  const sight::Recorder& recorder_;
  DeletionOrders& orders_;
  LinkProber& prober_;
  CacheReport cache_;
  std::optional<runtime::Endpoint> named_peer_;
  std::deque<ChunkInfo> lost_;  ///< lost chunks that have not been reported to the metaserver
};

/// How chunks are named in heartbeats and block reports.
void fill(proto::ReportedChunk& out, const ChunkInfo& chunk);

}  // namespace kintsugi::chunkserver
