/// Which chunks can be read now. Where a chunk should be is in the store; what is known against it is here,
/// in memory: it is learned again from block reports after a restart.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <unordered_map>

#include "common/base/ids.h"
#include "common/proto/store.pb.h"
#include "common/runtime/clock.h"
#include "metaserver/cluster/server_registry.h"
#include "metaserver/schema/stripes.h"

namespace kintsugi::metaserver {

class ChunkMap {
 public:
  ChunkMap(const ServerRegistry& servers, const runtime::Clock& clock) : servers_(servers), clock_(clock) {}

  /// It has no bytes, or it is on a server that is not dead and nothing is known against it.
  bool available(ChunkId id, const proto::StoredChunk& chunk) const;
  /// The indices of those that are, ascending.
  std::vector<uint32_t> available_chunks(StripeId id, const proto::StoredStripe& stripe) const;

  /// True: nothing was known against the chunk until now. `proven`: somebody read bytes that did not match. For kDistrust
  /// after it the server's word that it has the chunk is not enough.
  bool set_lost(ChunkId chunk, bool proven);
  /// Its server reports to have it.
  void set_present(ChunkId chunk);
  bool lost(ChunkId chunk) const { return lost_.contains(chunk); }
  size_t lost_chunks() const { return lost_.size(); }
  /// Those set_lost, in order, after `after`, until `visit` returns false.
  void scan_lost(ChunkId after, const std::function<bool(ChunkId)>& visit) const;

  /// The chunk was written to `server` just now: a block report that was collected before may not list it
  /// yet.
  void set_placed(ChunkId chunk, ServerId server);
  bool placed_since(ChunkId chunk, ServerId server, TimePoint when) const;
  /// The oldest block report under way began then (TimePoint::max(): none is): what was placed since is
  /// remembered, for at most kPlacedMemoryOfReports.
  void reports_began(TimePoint oldest) { reports_began_ = oldest; }

  void forget(StripeId stripe, const proto::StoredStripe& stored);

  /// Longer than a page is on the way from the moment it was collected.
  static constexpr Duration kPlacedMemory = std::chrono::seconds(20);
  static constexpr Duration kPlacedMemoryOfReports = std::chrono::minutes(5) + kPlacedMemory;
  static constexpr Duration kDistrust = std::chrono::minutes(10);

 private:
  struct Placed {
    ServerId server;
    TimePoint when;
  };
  const ServerRegistry& servers_;
  const runtime::Clock& clock_;
  std::map<ChunkId, TimePoint> lost_;  ///< value: from when on a block report may clear it
  std::unordered_map<ChunkId, Placed> placed_;
  std::deque<std::pair<TimePoint, ChunkId>> placed_order_;
  TimePoint reports_began_ = TimePoint::max();
};

}  // namespace kintsugi::metaserver
