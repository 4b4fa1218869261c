/// What may be waited for by name, a peer or a device, with totals of what was asked of it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "monitoring/sight/tables/seqlock.h"
#include "monitoring/sight/tables/zeroed_array.h"

namespace kintsugi::sight {

struct TargetTotals {
  static constexpr size_t kNameBytes = 63;
  uint64_t id;
  char name[kNameBytes + 1];
  bool device;
  uint64_t submitted, completed, busy_ns;  ///< waits of kind kCall or kDisk for the target
  uint64_t bytes_in, bytes_out;            ///< bytes that came from it and went to it
  uint64_t unanswered;                     ///< how many of the completed waits were given up
  uint64_t complaints;                     ///< messages of the target that were damaged, missing, or repeated
  uint64_t complained_of;                  ///< number of the RPC method of the latest such message
  uint64_t stalls;                         ///< completed waits that took kStall or longer
};

/// One thread writes; any may read. A full table drops and counts. What concerns a target without a name is not
/// counted.
class TargetTable {
 public:
  static constexpr int64_t kStall = 500'000'000;  ///< duration of a stall, in nanoseconds

  /// REQUIRES: limit is a power of two.
  explicit TargetTable(uint32_t limit);

  // ---- for the writer

  bool knows(uint64_t id) { return find(id) != nullptr; }
  /// Cheap when the name is known already.
  void name(uint64_t id, std::string_view name, bool device);
  void complain(uint64_t id, uint16_t method);
  void count_submitted(uint64_t id);
  void count_completed(uint64_t id, int64_t ns);
  void count_unanswered(uint64_t id);
  void count_bytes(uint64_t id, uint64_t in, uint64_t out);

  // ---- for any thread

  std::vector<TargetTotals> read() const;
  std::string name_of(uint64_t id) const;  ///< name of the target; empty: unknown
  uint64_t dropped() const { return dropped_.get(); }

 private:
  TargetTotals* find(uint64_t id);
  /// The entry that lies in the place where one with this id would lie, after so many steps.
  size_t place_of(uint64_t id, size_t steps) const { return (id + steps) & (targets_.size() - 1); }

  ZeroedArray<TargetTotals> targets_;
  uint32_t used_ = 0;
  Count dropped_;
};

}  // namespace kintsugi::sight
