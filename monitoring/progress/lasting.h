/// Keeps verdicts that have stood for long enough: in successive reports of their process, or in successive snapshots
/// for one that does not report.
#pragma once

#include <map>
#include <vector>

#include "monitoring/progress/evidence/open_tasks.h"

namespace kintsugi::progress {

/// Bounded. Not thread-safe.
class Lasting {
 public:
  static constexpr int kRounds = 2;
  static constexpr size_t kMaxCandidates = 4'096;

  explicit Lasting(int rounds) : rounds_(rounds) {}

  void keep(const OpenTasks& tasks, std::vector<proto::Verdict>& verdicts);

 private:
  struct Candidate {
    int rounds = 0;
    uint64_t sequence = 0;  ///< number of the process's latest report in which it held
    TimePoint seen{};
  };

  const int rounds_;
  std::map<uint64_t, Candidate> candidates_;  ///< key: progress::identity
};

}  // namespace kintsugi::progress
