/// The names of chunks that were removed a short while ago.
#pragma once

#include <deque>
#include <unordered_map>
#include <utility>

#include "common/base/ids.h"
#include "common/runtime/clock.h"

namespace kintsugi::chunkserver {

/// A small chunk is written by one call, which its client may have given up long before it arrives. When the chunk was
/// removed meanwhile, nobody would know of the copy that such a call makes.
class RemovedLately {
 public:
  static constexpr Duration kMemory = std::chrono::minutes(10);  ///< longer than a call may take
  static constexpr size_t kMost = 100'000;                       ///< chunks; the oldest are forgotten first

  void add(ChunkId id, TimePoint now) {
    forget(now);
    when_[id] = now;
    order_.emplace_back(now, id);
  }
  bool contains(ChunkId id, TimePoint now) {
    forget(now);
    return when_.contains(id);
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
  std::deque<std::pair<TimePoint, ChunkId>> order_;  ///< the entries of `when_`, and such as were replaced
};

}  // namespace kintsugi::chunkserver
