/// Disks of several servers of one machine that do not answer at the same time: what they have in common is at fault, as
/// one disk, a controller or the hypervisor, and none of the servers.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "common/proto/sight.pb.h"
#include "monitoring/model/snapshot.h"

namespace kintsugi::progress {

/// Not thread-safe.
class MachineDisks {
 public:
  /// So many servers of a machine, and at least half of those there that have disks.
  static constexpr size_t kLeast = 3;
  /// They do not all continue in the same second, so what is left is still the machine's for so long.
  static constexpr Duration kAfter = 10s;

  /// Puts one verdict on the machine in the place of those on its servers' disks. Returns the processes of which it
  /// speaks.
  std::set<uint64_t> join(const model::Snapshot& snapshot, std::vector<proto::Verdict>& verdicts);

 private:
  std::map<std::string, TimePoint> joined_;  ///< key: machine; value: when it last was at fault
};

}  // namespace kintsugi::progress
