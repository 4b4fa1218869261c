/// What the workers of a process did: a semi-Markov model of states, transitions, and how long tasks stayed before
/// each of them.
///
/// All of it are sums of integers, so that merging models gives the same bits in whatever order and shape of tree.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/runtime/clock.h"
#include "monitoring/model/process_view.h"

namespace kintsugi::model {

/// The same for equal states of all processes, also of other builds whose regions have the same names. 0: outside of
/// every task, or unknown.
uint64_t state_key(const ProcessView& view, uint32_t state);

/// One transition. Sums wrap around instead of overflowing: garbage in a report stays harmless.
struct EdgeModel {
  static constexpr size_t kOctaves = 32;

  uint64_t count = 0;
  uint64_t sum_q8 = 0;      ///< sum of log2(sojourn in ns), unit 1/256, two's complement
  uint64_t sum_sq_q16 = 0;  ///< sum of the squares of log2(sojourn in ns), unit 1/65536
  std::array<uint64_t, kOctaves> octaves{};

  void add(Duration sojourn);
  EdgeModel& operator+=(const EdgeModel& other);
  EdgeModel& operator-=(const EdgeModel& earlier);
  bool operator==(const EdgeModel&) const = default;

  /// The mean and deviation of log2(sojourn in ns); 0 when nothing was counted.
  double mean() const;
  double deviation() const;
};

class WorkerModel {
 public:
  /// When several models are merged, the transitions with the smallest keys stay: which ones does not depend on the
  /// order of merging.
  static constexpr size_t kMaxEdges = 65'536;
  using Key = std::pair<uint64_t, uint64_t>;  ///< (from, to)

  /// Everything that the process has said since its start; of one role, by the name of the site that opens its tasks,
  /// or of all.
  static WorkerModel of(const ProcessView& view, std::string_view role = {});

  void add(uint64_t from, uint64_t to, Duration sojourn);
  void add(uint64_t from, uint64_t to, const EdgeModel& edge);
  /// The union of states and transitions, and the sums of their counts.
  void merge(const WorkerModel& other);
  /// What happened after `earlier`, a model of the same workers: a window. When a count has fallen the process was
  /// started again, and all of this happened since.
  WorkerModel since(const WorkerModel& earlier) const;

  const std::map<Key, EdgeModel>& edges() const { return edges_; }
  uint64_t dropped() const { return dropped_; }
  /// The share of all transitions out of `from` that went to `to`; 0 when there were none.
  double probability(uint64_t from, uint64_t to) const;
  uint64_t out_of(uint64_t from) const;
  std::vector<uint64_t> states() const;

  bool operator==(const WorkerModel& other) const { return edges_ == other.edges_; }

 private:
  void bound();

  std::map<Key, EdgeModel> edges_;
  uint64_t dropped_ = 0;  ///< transitions for which there was no room
};

}  // namespace kintsugi::model
