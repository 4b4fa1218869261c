/// Call-coverage analysis: which calls only the anomalous flows made, and which they left out (Mirgorodskiy 2006, section
/// 5.3.4). For causes that take no time: a wrong branch, a second free.
#pragma once

#include "tracing/anomaly/profile.h"

namespace kintsugi::cause {

enum class Side : uint8_t {
  kOnlyAnomalous,  ///< on every anomalous flow and on no normal one
  kOnlyNormal,     ///< on every normal flow and on no anomalous one
};

/// Calls that one function made on one side alone. Why it did, its source tells.
struct CoverageDifference {
  Side side = Side::kOnlyAnomalous;
  anomaly::PathId caller = 0;  ///< the path of the function to look at; it is on both sides
  std::vector<anomaly::PathId>
      calls;          ///< what it called: a merged leaf (5.9), in the order of first occurrence
  size_t flow = 0;    ///< a place among the flows of its side: where it was first seen
  int64_t first = 0;  ///< when, since the beginning of that flow; as anomaly::PathTotal::first
};

enum class Order : uint8_t {
  kTime,    ///< by first occurrence: symptoms come after their cause
  kLength,  ///< short call paths first: they often are the larger differences
  kLengthThenTime,
};

struct CoverageAnalysis {
  size_t only_anomalous = 0, only_normal = 0;  ///< differing call paths (Pinpoint stops here)
  size_t pruned = 0;  ///< differing call paths that are no effect of an earlier one (5.8)
  std::vector<CoverageDifference> differences;  ///< these, those of one caller merged (5.9); ranked
};

/// Paths are closed under prefixes first. Several flows on a side: in all of the one and none of the other.
/// O(paths + what the flows have). Nothing if a side has no flows.
CoverageAnalysis analyse_coverage(std::span<const anomaly::PathTotals> anomalous,
                                  std::span<const anomaly::PathTotals> normal,
                                  const anomaly::CallPaths& paths, Order order = Order::kTime);

/// The same differences in another order.
void rank(std::vector<CoverageDifference>& differences, const anomaly::CallPaths& paths, Order order);

}  // namespace kintsugi::cause
