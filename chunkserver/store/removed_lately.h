/// The names of chunks that were removed a short while ago.
#pragma once

#include <deque>
#include <optional>
#include <unordered_map>
#include <utility>

#include "common/base/ids.h"
#include "common/runtime/clock.h"

namespace kintsugi::chunkserver {

/// A write may arrive whole, by one call or by all that was sent over a stream, long after its client gave it up. When
/// the chunk was removed meanwhile, nobody would know of the copy that this makes.
class RemovedLately {
 public:
  static constexpr Duration kMemory = std::chrono::minutes(10);  ///< longer than any call may take
  static constexpr size_t kMost = 100'000;  ///< number of chunks; beyond it, the oldest are forgotten

  void add(ChunkId id, TimePoint now) {
    forget(now);
    when_[id] = now;
    order_.emplace_back(now, id);
  }
  /// When the chunk was removed the last time. Nothing: not lately.
  std::optional<TimePoint> when(ChunkId id, TimePoint now) {
    forget(now);
    const auto removed = when_.find(id);
    return removed == when_.end() ? std::nullopt : std::optional(removed->second);
  }

 private:
  void forget(TimePoint now) {
    while (!order_.empty() && (order_.size() >= kMost || order_.front().first + kMemory <= now)) {
      const auto& [when, id] = order_.front();
      // A chunk that was removed again since is remembered by its later entry.
      const auto known = when_.find(id);
      if (known != when_.end() && known->second == when) when_.erase(known);
      order_.pop_front();
    }
  }

  std::unordered_map<ChunkId, TimePoint> when_;
  /// Entries of `when_` in order of time; some may be superseded.
  std::deque<std::pair<TimePoint, ChunkId>> order_;
};

}  // namespace kintsugi::chunkserver
