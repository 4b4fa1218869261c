/// Processes that lack a processor: one process beside others that have theirs, or all of a machine.
#pragma once

#include <vector>

#include "common/proto/sight.pb.h"
#include "monitoring/progress/evidence/processor_shares.h"

namespace kintsugi::progress {

/// A process that others waited too long for, or that was too late to see their answers, because it had no processor.
struct StarvedProcess {
  uint64_t process = 0;
  double waited_too_long = 0;  ///< excess time of the tasks that wait for it, in seconds of each second
  double excused = 0;          ///< part of that which the lack of a processor explains
  TimePoint since{};
};

/// One verdict a machine. HOST names the machine, and in servers_waiting the processes that suffer; RESOURCE names the
/// one process that does. The confidence is CERTAIN only when the machine itself says, too, that somebody waited for a
/// processor most of the time.
std::vector<proto::Verdict> short_machines(const std::vector<StarvedProcess>& starved,
                                           const ProcessorShares& shares, const model::Snapshot& snapshot);

/// Writes what a lack of processor explains (evidence/shortage.h) as reasons below the verdict on that lack: the HOST
/// one on the machine, or the RESOURCE one on the process. Without such a verdict nothing is said of it.
void tell_what_shortages_explain(const std::vector<proto::Verdict>& excused, const model::Snapshot& snapshot,
                                 std::vector<proto::Verdict>& verdicts);

}  // namespace kintsugi::progress
