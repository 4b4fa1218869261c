/// Processes of a role whose log and machine do not explain each other any more: our detector. Deterministic.
///
/// What healthy windows show at most, each fifth of the healthy time judged by the rest, is usual. Peers are a second reference:
/// what several do at once is the fault of none, so their median at the same time is taken out.
#pragma once

#include <array>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "monitoring/metrics/blacksheep/explanation.h"

namespace kintsugi::blacksheep {

/// A reference of fewer processes is none. A process alone leaves what its log explains whenever its work changes, as a metaserver
/// does when it compacts its store.
inline constexpr size_t kPeersNeeded = 3;
/// The healthy time is cut into so many parts, each of which is judged by the others.
inline constexpr size_t kParts = 5;
/// What is told of is so many times as far off as anything in the healthy time.
inline constexpr double kMargin = 4;

enum class Tells : uint8_t {
  kMoreWork,  ///< the machine does work that the log does not tell of: a hog, a leak, a loop
  kLessWork,  ///< the machine does less than for a process that is asked for nothing: it is stopped
  kOpen,  ///< executions are open for which nothing is done: they hang, are slow, or wait for another process
};

struct Unexplained {
  size_t process = 0;  ///< index in what was judged
  int64_t begin_ns = 0,
          end_ns = 0;  ///< the window in which it is farthest off; the lines of the log there are evidence
  Tells tells = Tells::kMoreWork;
  std::string name;                  ///< name of the metric, or of the state
  double actual = 0, explained = 0;  ///< increase of the metric a second, or mean number of open executions
  double excess = 0;                 ///< how many times as far off as the healthy time at most; above kMargin
  double open_seconds = 0;  ///< for kOpen: of all executions, less what is explained, over all windows
  /// Of a role one process is accused. What the others show at the same time may come from its fault.
  bool accused = false;
};

class Usual {
 public:
  /// kPeers: there are too few processes; others: as Explanation::learn(). REQUIRES: the same.
  static Answer<Usual> learn(std::span<const Work> healthy, const std::vector<std::string>& states,
                             const std::vector<std::string>& metrics);

  /// At most one for each process, the accused one first; nobody where fewer than kPeersNeeded others are known. What the machine does is its own, while an execution that is open may
  /// wait for another process: so those whose machine is off come first, by `excess`, then those that have executions open, by
  /// `open_seconds`. REQUIRES: all have the same windows.
  std::vector<Unexplained> judge(std::span<const Work> now) const;

 private:
  /// The farthest that healthy windows were off, above and below; 1 at least.
  using Farthest = std::array<double, 2>;

  explicit Usual(Explanation explanation) : explanation_(std::move(explanation)) {}
  void heed(const Explanation& explanation, std::span<const Work> part);
  std::vector<Unexplained> of_process(size_t process, const Work& work, const Eigen::MatrixXd& off) const;
  double open_seconds(const Work& work, size_t aspect) const;

  Explanation explanation_;
  std::map<std::pair<Aspect::Of, std::string>, Farthest> farthest_;
};

}  // namespace kintsugi::blacksheep
