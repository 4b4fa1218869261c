/// Processes that report and get next to no processor, while others of their machine have theirs: a control group with a
/// quota, a priority that is far too low. They say it themselves, so nobody has to wait for them first, and their rare
/// reports do not make them silent.
#pragma once

#include <vector>

#include "common/proto/sight.pb.h"
#include "monitoring/progress/evidence/processor_shares.h"

namespace kintsugi::progress {

/// One RESOURCE verdict for each of them.
std::vector<proto::Verdict> starved_processes(const model::Snapshot& snapshot, const ProcessorShares& shares);

/// Puts the verdict on the process in the place of one on its disk, if it starves, and had no processor for most of the
/// time for which the disk does not answer: it would not have heard of an answer. Whoever waits for the disk waits for it.
void accuse_starved_instead_of_their_disks(const model::Snapshot& snapshot, const ProcessorShares& shares,
                                           std::vector<proto::Verdict>& verdicts);

}  // namespace kintsugi::progress
