/// Measures how much each chunk is used: a lost chunk is repaired the sooner for it (Mitra 2016, section 4.4.4).
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

/// A chunk's heat is the number of times it was read, where each read counts half as much after every kHalfLife.
/// Reading a part of a chunk is that part of a read. Beyond the limit the coldest chunk is forgotten.
class UsageProfile {
 public:
  static constexpr Duration kHalfLife = std::chrono::minutes(1);
  static constexpr size_t kMaxChunks = 65'536;

  explicit UsageProfile(const runtime::Clock& clock, size_t max_chunks = kMaxChunks)
      : clock_(clock), max_chunks_(max_chunks) {}

  /// A part of the chunk was read: `share` is at most 1, and nothing happens for 0.
  void read(ChunkId id, double share);
  void forget(ChunkId id);

  /// Called when a chunk was read.
  std::function<void(ChunkId)> on_change = [](ChunkId) {};

  double heat(ChunkId id) const;
  std::vector<std::pair<ChunkId, double>> hottest(size_t limit) const;
  size_t size() const { return scores_.size(); }

 private:
  /// log2(heat) + time in half lives. Decay does not change this sum, so that the order of chunks stays as it is.
  using Score = double;
  double now_in_half_lives() const;
  double heat_of(Score score) const;

  const runtime::Clock& clock_;
  const size_t max_chunks_;
  std::unordered_map<ChunkId, Score> scores_;  ///< never iterated: its order is not deterministic
  std::set<std::pair<Score, ChunkId>> order_;  ///< coldest first
};

}  // namespace kintsugi::chunkserver
