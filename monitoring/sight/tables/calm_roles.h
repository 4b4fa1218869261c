/// Which tasks are recorded lightly: those that are served often, of a role whose tasks lately ended without ever
/// having waited. Of such a role a few tasks are recorded in full and stand for the others, whole traces at a time.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <utility>

#include "common/base/hash.h"
#include "common/runtime/clock.h"
#include "monitoring/sight/tables/zeroed_array.h"

namespace kintsugi::sight {

/// One thread uses it, but for keep_traces().
class CalmRoles {
 public:
  /// So many tasks of a role end after the last wait in one of them before the role is calm.
  static constexpr uint32_t kCalmAfter = 64;
  /// At most so many tasks, or visits of a calling context, follow one another that are only counted.
  static constexpr uint32_t kMostLight = 63;
  /// A role of which no task was recorded in full for so long is not busy, and nothing is saved on it.
  static constexpr int64_t kBusyNs =
      std::chrono::duration_cast<Duration>(std::chrono::milliseconds(100)).count();
  /// The share of all traces that is recorded in full: those that a TraceExporter chooses for it.
  static constexpr double kShare = 1.0 / 32;

  explicit CalmRoles(uint32_t roles) : roles_(roles) {}

  /// What a role's tasks are in when they begin.
  struct Entry {
    uint64_t role_path;
    uint16_t state;
  };

  /// True when the task that begins now is recorded lightly.
  bool lightly(uint16_t number, uint64_t trace_id, int64_t now_ns) const {
    const Role& role = roles_[number];
    return role.ended >= kCalmAfter && role.light < kMostLight && now_ns - role.full_ns < kBusyNs &&
           mix_bits(trace_id) >= kept_.load(std::memory_order_relaxed);
  }
  const Entry& entry(uint16_t number) const { return roles_[number].entry; }
  void ended_lightly(uint16_t number) { ++roles_[number].light; }

  /// A task begins that is recorded in full. Returns for how many of its role it stands, itself among them.
  uint32_t begun(uint16_t number, const Entry& entry, int64_t now_ns) {
    Role& role = roles_[number];
    role.entry = entry;
    role.full_ns = now_ns;
    return 1 + std::exchange(role.light, 0);
  }
  void ended(uint16_t number) {
    if (roles_[number].ended < kCalmAfter) ++roles_[number].ended;
  }
  void waited(uint16_t number) { roles_[number].ended = 0; }

  /// Traces of this share at least are recorded in full. Any thread may call it.
  void keep_traces(double share) const {
    share = std::max(share, kShare);
    kept_.store(share >= 1 ? UINT64_MAX : static_cast<uint64_t>(share * 0x1p64), std::memory_order_relaxed);
  }

 private:
  struct Role {
    Entry entry;      ///< known when a task of the role has ended
    uint32_t ended;   ///< tasks in full that ended since one of the role last waited, up to kCalmAfter
    uint32_t light;   ///< tasks that were recorded lightly since the last one that was not
    int64_t full_ns;  ///< time at which the last task began that was recorded in full
  };
  ZeroedArray<Role> roles_;
  mutable std::atomic<uint64_t> kept_{static_cast<uint64_t>(kShare * 0x1p64)};
};

}  // namespace kintsugi::sight
