/// Totals of tasks by role. A role is what tasks do that were opened at the same site.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "common/base/status.h"
#include "common/runtime/site.h"
#include "monitoring/sight/tables/seqlock.h"
#include "monitoring/sight/tables/zeroed_array.h"

namespace kintsugi::sight {

using runtime::Site;

struct RoleTotals {
  const Site* site;
  uint64_t begun, ended, failed;
  uint64_t faulty;  ///< tasks that failed by a fault of their own: is_own_fault()
  uint32_t live;
};

/// True for codes by which whoever answers says that it is not well itself, and not that what was asked for cannot be
/// had, may not be done or finds no room. I/O errors are those of a disk, which the server counts by disk, and which it
/// takes for failed.
inline bool is_own_fault(Code code) {
  return code == Code::kUnavailable || code == Code::kInternal;
}

/// One thread writes; any may read. A full table drops and counts. Role 0 is none.
class RoleTable {
 public:
  /// REQUIRES: limit is a power of two.
  explicit RoleTable(uint32_t limit);

  // ---- for the writer

  uint16_t of(const Site& site) {
    const uint64_t usual = site.id() & (roles_.size() - 1);
    return usual != 0 && roles_[usual].site == &site ? static_cast<uint16_t>(usual) : find(site);
  }
  void count_begun(uint16_t role) {
    add(roles_[role].begun, uint64_t{1});
    add(roles_[role].live, uint32_t{1});
  }
  void count_ended(uint16_t role, Code outcome) {
    add(roles_[role].ended, uint64_t{1});
    put(roles_[role].live, roles_[role].live - 1);
    if (outcome == Code::kOk) return;
    add(roles_[role].failed, uint64_t{1});
    if (is_own_fault(outcome)) add(roles_[role].faulty, uint64_t{1});
  }

  // ---- for any thread

  std::vector<RoleTotals> read() const;  ///< index: role number; an entry without a site is unused
  uint64_t dropped() const { return dropped_.get(); }

 private:
  uint16_t find(const Site& site);

  ZeroedArray<RoleTotals> roles_;
  uint32_t used_ = 1;
  Count dropped_;
};

}  // namespace kintsugi::sight
