/// Copies of chunks about which something is remembered for a while.
#pragma once

#include <deque>
#include <map>
#include <utility>

#include "common/base/ids.h"
#include "common/runtime/clock.h"

namespace kintsugi::metaserver {

class RememberedCopies {
 public:
  /// Each is remembered for `memory`, and the last `most` of them only.
  RememberedCopies(Duration memory, size_t most) : memory_(memory), most_(most) {}

  void add(ServerId server, ChunkId chunk, TimePoint now) {
    when_[{chunk, server}] = now;
    by_time_.push_back({now, {chunk, server}});
    while (by_time_.front().first + memory_ <= now || by_time_.size() > most_) {
      const auto& [when, copy] = by_time_.front();
      const auto known = when_.find(copy);
      if (known != when_.end() && known->second == when) when_.erase(known);
      by_time_.pop_front();
    }
  }
  bool contains(ServerId server, ChunkId chunk) const { return when_.contains({chunk, server}); }
  void forget(ServerId server, ChunkId chunk) { when_.erase({chunk, server}); }

 private:
  using Copy = std::pair<ChunkId, ServerId>;

  const Duration memory_;
  const size_t most_;
  std::map<Copy, TimePoint> when_;  ///< time at which each copy was added last
  /// The entries of `when_` by their times. It may name some that are forgotten already.
  std::deque<std::pair<TimePoint, Copy>> by_time_;
};

}  // namespace kintsugi::metaserver
