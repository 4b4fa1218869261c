/// Tells whether the disk of the metadata takes more.
#pragma once

#include <optional>

#include "common/base/status.h"
#include "common/proto/sight.pb.h"
#include "common/runtime/clock.h"
#include "metaserver/kv/key_value_store.h"

namespace kintsugi::metaserver {

/// A store that cannot write has to end, and with it everybody's reads. So what would add to it is refused while its
/// disk is nearly full; deletions still continue, so that people can make room. Logs once when the room ends.
class StoreRoom {
 public:
  static constexpr uint64_t kReserveBytes = 128ull << 20;
  static constexpr uint64_t kReserveInodes = 256;                       ///< the store makes files as it grows
  static constexpr Duration kInterval = std::chrono::milliseconds(10);  ///< between two looks at the disk

  /// Both outlive it.
  StoreRoom(const KeyValueStore& store, const runtime::Clock& clock) : store_(store), clock_(clock) {}

  /// Checks that the disk takes more. kNoSpace: it is nearly full.
  Status check();
  /// Returns true if the disk has so many bytes beyond the reserve.
  bool has(uint64_t bytes) { return check().ok() && space_.free_bytes - kReserveBytes >= bytes; }
  const StoreSpace& space() {
    look();
    return space_;
  }
  proto::Room describe();

 private:
  void look();
  bool is_short() const { return space_.free_bytes < kReserveBytes || space_.free_inodes < kReserveInodes; }
  Status refusal() const;

  const KeyValueStore& store_;
  const runtime::Clock& clock_;
  StoreSpace space_;
  std::optional<TimePoint> known_until_;
};

}  // namespace kintsugi::metaserver
