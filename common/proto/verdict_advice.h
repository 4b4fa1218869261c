/// What an operator wants to know of a verdict: who, what it means for users, and what to do. The evidence for a
/// developer is what describe(verdict) and its chain say (verdicts.h).
#pragma once

#include <string>

#include "common/proto/sight.pb.h"

namespace kintsugi::proto {

/// One line without a newline at its end: `chunkserver-7 does not answer; 3 operations wait. Check that its process
/// and its machine run, and start it again.` A verdict that is unsure begins with "Possibly: ". Bytes that are not
/// printable are quoted.
std::string advise(const Verdict& verdict);

}  // namespace kintsugi::proto
