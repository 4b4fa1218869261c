/// How much each chunk is used: what the repair of a lost chunk is hurried by (the paper's section 4.4.4).
#pragma once

#include <cstddef>
#include <functional>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/base/ids.h"
#include "common/runtime/clock.h"

namespace kintsugi::chunkserver {

/// A chunk's heat is the number of times it was read, each halved for every kHalfLife since. Reading a part
/// of a chunk is that part of a read. Bounded: beyond the limit the coldest chunk is forgotten.
class UsageProfile {
 public:
  static constexpr Duration kHalfLife = std::chrono::minutes(1);
  static constexpr size_t kMaxChunks = 65'536;

  explicit UsageProfile(const runtime::Clock& clock, size_t max_chunks = kMaxChunks)
      : clock_(clock), max_chunks_(max_chunks) {}

  /// `share` of the chunk was read, at most 1; nothing happens for 0.
  void read(ChunkId id, double share);
  void forget(ChunkId id);

  /// A chunk was read.
  std::function<void(ChunkId)> on_change = [](ChunkId) {};

  double heat(ChunkId id) const;
  std::vector<std::pair<ChunkId, double>> hottest(size_t limit) const;
  size_t size() const { return scores_.size(); }

 private:
  /// log2(heat) + time in half lives: what decay does not change, so that the order stays as it is.
  using Score = double;
  double now_in_half_lives() const;
  double heat_of(Score score) const;

  const runtime::Clock& clock_;
  const size_t max_chunks_;
  std::unordered_map<ChunkId, Score> scores_;  ///< never iterated
  std::set<std::pair<Score, ChunkId>> order_;  ///< coldest first
};

}  // namespace kintsugi::chunkserver
