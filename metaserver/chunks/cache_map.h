/// Chunks that the chunkservers have in memory, and how much each is read, as heartbeats tell it (Mitra 2016, sections
/// 4.4.4 and 4.6.3, figure 4.6). These are hints: stale by a heartbeat, and gone after a restart.
#pragma once

#include <map>
#include <optional>
#include <unordered_map>

#include "common/base/ids.h"
#include "common/proto/meta.pb.h"
#include "common/runtime/clock.h"

namespace kintsugi::metaserver {

/// Heat is halved every minute. That of a dead server's chunks stands still: nobody can read them there, and those that
/// were read most are to be repaired first.
class CacheMap {
 public:
  static constexpr Duration kHalfLife = std::chrono::minutes(1);
  static constexpr size_t kMaxChunksOfServer = 200'000;
  /// Limit for all servers together; news about further chunks is ignored.
  static constexpr size_t kMaxChunks = 4'000'000;
  static constexpr double kColdHeat = 1.0 / 64;  ///< colder chunks are forgotten
  static constexpr size_t kSweepStep = 64;       ///< entries examined for each one that is added

  /// The clock outlives it.
  explicit CacheMap(const runtime::Clock& clock) : clock_(clock) {}

  void apply(ServerId server, const proto::HeartbeatRequest& heartbeat);
  /// The server's memory is gone; the heat of its chunks is kept as it is.
  void server_died(ServerId server);
  /// The server begins anew, or is no more.
  void forget(ServerId server);

  bool cached(ServerId server, ChunkId chunk) const;
  double heat(ServerId server, ChunkId chunk) const;
  size_t cached_chunks(ServerId server) const;
  size_t size() const { return size_; }

 private:
  struct Usage {
    bool cached = false;
    float heat = 0;
    TimePoint when;
  };
  struct Server {
    std::map<ChunkId, Usage> chunks;
    size_t cached = 0;
    ChunkId swept;  ///< the last entry that the sweep examined
    std::optional<TimePoint> died;
  };
  double heat_of(const Server& server, const Usage& usage) const;
  void set(Server& server, ChunkId chunk, bool cached, float heat);
  void erase(Server& server, std::map<ChunkId, Usage>::iterator at);
  void sweep(Server& server);

  const runtime::Clock& clock_;
  std::unordered_map<ServerId, Server> servers_;  ///< never iterated: its order is not deterministic
  size_t size_ = 0;
};

}  // namespace kintsugi::metaserver
