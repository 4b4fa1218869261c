/// Which chunks can be read now. A chunk's place is in the store; what is known against the chunk there is here, in
/// memory: block reports teach it again after a restart.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <optional>
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

  const ServerRegistry& servers() const { return servers_; }

  /// The chunk has no bytes, or it is on a server that is not dead and nothing is known against it.
  bool available(ChunkId id, const proto::StoredChunk& chunk) const;
  /// The chunk is available, and its server has told all that it has since it registered with this process.
  bool confirmed(ChunkId id, const proto::StoredChunk& chunk) const;
  /// The indices of the available chunks, ascending.
  std::vector<uint32_t> available_chunks(StripeId id, const proto::StoredStripe& stripe) const;

  /// True: nothing was known against the chunk until now. `proven`: somebody read bytes that did not match. For
  /// kDistrust after it the server's word that it has the chunk is not enough.
  bool set_lost(ChunkId chunk, bool proven);
  /// The chunk's server reports to have it. Returns from when on that is believed, if it is not yet.
  std::optional<TimePoint> set_present(ChunkId chunk);
  bool lost(ChunkId chunk) const { return lost_.contains(chunk); }
  size_t lost_chunks() const { return lost_.size(); }
  /// Visits lost chunks in order, after `after`, until `visit` returns false.
  void scan_lost(ChunkId after, const std::function<bool(ChunkId)>& visit) const;

  /// The chunk was written to `server` just now: a block report that was collected before may not list it yet.
  void set_placed(ChunkId chunk, ServerId server);
  bool placed_since(ChunkId chunk, ServerId server, TimePoint when) const;
  /// The oldest block report under way began at `oldest` (TimePoint::max(): none is under way). Chunks placed since
  /// then are remembered, for at most kPlacedMemoryOfReports.
  void reports_began(TimePoint oldest) { reports_began_ = oldest; }

  void forget(StripeId stripe, const proto::StoredStripe& stored);

  /// Longer than a page of a block report is on its way from the moment when it was collected.
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
  std::map<ChunkId, TimePoint> lost_;  ///< value: the time from which a block report may clear the loss
  std::unordered_map<ChunkId, Placed> placed_;
  std::deque<std::pair<TimePoint, ChunkId>> placed_order_;
  TimePoint reports_began_ = TimePoint::max();
};

}  // namespace kintsugi::metaserver
