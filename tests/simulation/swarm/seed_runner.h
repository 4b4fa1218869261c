/// Runs seeds in processes of their own, so that one that crashes, hangs or leaks is a finding like any other.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tests/simulation/swarm/coverage.h"
#include "tests/simulation/swarm/violation.h"

namespace kintsugi::simulation {

struct SeedRun {
  uint64_t seed = 0;
  size_t steps = 120;
  std::optional<std::set<uint32_t>> kept;  ///< only these steps; none: all
};

struct SeedReport {
  SeedRun run;
  Finding finding;
  std::vector<std::string> last_lines;  ///< of the daemons' logs; empty when nothing was found
  Coverage coverage;
};

class SeedRunner {
 public:
  static constexpr unsigned kRealTimeLimit = 120;  ///< seconds for one seed

  explicit SeedRunner(size_t jobs) : jobs_(jobs) {}

  /// Runs what `next` gives until it gives nothing more, `jobs` at a time; `ended` is told of each in the order in which
  /// they end.
  void run(const std::function<std::optional<SeedRun>()>& next, const std::function<void(SeedReport)>& ended);
  SeedReport run_one(const SeedRun& run);

 private:
  size_t jobs_;
};

/// Leaves out steps as long as the same kind of violation is found (delta debugging: Zeller and Hildebrandt 2002), and
/// returns the report of the shortest run. It gives up after `most_runs`.
SeedReport shrink(SeedRunner& runner, const SeedReport& found, size_t most_runs);

}  // namespace kintsugi::simulation
