/// From culprits to verdicts: names, regions, lines, chains, words of confidence and reasons.
#pragma once

#include <vector>

#include "monitoring/progress/waits/culprits.h"

namespace kintsugi::progress {

/// The word for a probability. `explicit_chain`: every step is known and none guessed; `doubts`: how many things are
/// wrong with the evidence, each of which costs a level.
proto::Verdict::Confidence confidence_of(double probability, bool explicit_chain, int doubts);

/// Equal for verdicts that say the same of the same place.
uint64_t identity(const proto::Verdict& verdict);

/// One verdict for each culprit that is worth one, equal ones (server, role, region) put together, the worst first.
std::vector<proto::Verdict> write_verdicts(const OpenTasks& tasks, const WaitGraph& graph,
                                           const Sojourns& sojourns, const std::vector<Culprit>& culprits);

}  // namespace kintsugi::progress
