/// What waits in the repair queue, and how urgent it is.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/base/ids.h"
#include "common/runtime/clock.h"

namespace kintsugi::repair_manager {

enum class WorkKind : uint8_t { kRepair, kMove };

/// One lost chunk, or one that is to leave its server. No copy of the stripe: what it looks like is asked
/// when its turn comes.
struct QueueEntry {
  ChunkId chunk;
  WorkKind kind = WorkKind::kRepair;
  /// How many further losses the stripe survives, whichever they are; negative: data is already lost.
  int32_t spare = 0;
  bool in_maintenance = false;  ///< all that the stripe lacks is on servers in maintenance
  float heat = 0;               ///< how often the chunk is read (ChunkView.heat)
  TimePoint lost_at;            ///< time of the loss; older losses go first
  TimePoint due;                ///< the entry waits until this time
  /// The server whose return makes the repair needless; none: only the chunk was lost, not its server.
  ServerId dead_server;
  /// Only for kMove; moving_to none: the best destination.
  ServerId moving_from, moving_to;
  std::shared_ptr<const std::string> reason;
  uint32_t attempt = 0;            ///< failed attempts so far
  uint32_t rotation = 0;           ///< failed attempts for which no server could be blamed
  std::vector<ServerId> excluded;  ///< servers that failed in the last attempts
};

/// A stripe with this few spare chunks is repaired without delay, unless servers in maintenance will bring back all that
/// it lacks: these are waited for while it has any spare chunk.
inline constexpr int32_t kUrgentSpare = 1;
inline bool is_urgent(const QueueEntry& entry) {
  return entry.spare <= (entry.in_maintenance ? 0 : kUrgentSpare);
}

/// The chunk is lost, and one more loss makes its stripe unreadable: its repair is not slowed by the cluster's limit.
inline bool is_without_spare(const QueueEntry& entry) {
  return entry.kind == WorkKind::kRepair && entry.spare <= 0;
}

/// 1 for a chunk that is read at least once a minute, and one more for each doubling: the order does not change with
/// every read.
uint32_t heat_class(float heat);

}  // namespace kintsugi::repair_manager
