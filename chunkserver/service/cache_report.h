/// Tells the metaserver, heartbeat by heartbeat, which chunks are cached and which are hot (Mitra 2016, figure 4.6).
#pragma once

#include <set>
#include <unordered_map>

#include "chunkserver/store/chunk_cache.h"
#include "chunkserver/store/usage_profile.h"
#include "common/proto/meta.pb.h"

namespace kintsugi::chunkserver {

/// Tells changes only, hottest first, at most kMaxChanges in a heartbeat: the others wait for the next one. The
/// metaserver lets heat decay as it does here, so that only reads are news, and of those only the ones that double it.
class CacheReport {
 public:
  static constexpr size_t kMaxChanges = 1000;
  static constexpr double kChangeFactor = 2;
  static constexpr double kColdHeat = 1.0 / 16;    ///< the heat of colder chunks is not reported
  static constexpr size_t kMaxReported = 100'000;  ///< chunks above which cold ones are no longer remembered
  static constexpr size_t kMaxUnconfirmed = 10'000;  ///< chunks above which the whole report begins anew

  /// Takes the on_change of the cache and of the profile, which outlive it.
  CacheReport(ChunkCache& cache, UsageProfile& usage, const runtime::Clock& clock);
  ~CacheReport();

  /// The metaserver knows nothing: the next heartbeat begins anew.
  void restate();
  void fill(proto::HeartbeatRequest& request);
  /// The metaserver has taken this heartbeat.
  void delivered(const proto::HeartbeatRequest& request);

 private:
  struct Reported {
    bool cached = false;
    double heat = 0;
    TimePoint when;
  };
  struct Change {
    ChunkId id;
    bool cached = false;
    double heat = 0;
  };
  double reported_heat(const Reported& reported) const;
  bool has_changed(const Change& state) const;
  void forget_cold();

  ChunkCache& cache_;
  UsageProfile& usage_;
  const runtime::Clock& clock_;
  std::set<ChunkId> candidates_;  ///< chunks whose state may have changed since they were reported
  std::unordered_map<ChunkId, Reported> reported_;
  /// Chunks reported in heartbeats that were not answered: the metaserver may or may not know their state.
  std::set<ChunkId> unconfirmed_;
  bool restating_ = true;
};

}  // namespace kintsugi::chunkserver
