/// Waits until damaged chunks are whole again.
#pragma once

#include <functional>
#include <set>
#include <vector>

#include <boost/asio/awaitable.hpp>

#include "client/lib/check/check_report.h"
#include "client/lib/resources.h"
#include "common/proto/types.pb.h"

namespace kintsugi::client {

/// The metaserver has the chunks repaired by itself: it knows of each, or is told by whoever adds it here.
class RepairWait {
 public:
  static constexpr size_t kMaxChunks = 200'000;  ///< further chunks are only counted
  /// Pause between two checks; it doubles up to kLastPause.
  static constexpr Duration kFirstPause = std::chrono::milliseconds(100);
  static constexpr Duration kLastPause = std::chrono::seconds(2);

  /// `resources` outlives it.
  explicit RepairWait(Resources& resources) : resources_(resources) {}

  /// A chunk that is here already is not added again.
  void add(DamagedChunk chunk);
  uint64_t chunks() const { return chunks_.size() + unlisted_; }
  uint64_t settled() const { return settled_; }

  /// Returns when all are settled, or when none was for `patience`. `on_settled` is called after each that is. Errors:
  /// those of the metaserver.
  asio::awaitable<Status> wait(Context context, Duration patience, std::function<void()> on_settled);
  /// Hands over what was added and what became of it.
  void report_to(DeepCheckReport& report);

 private:
  asio::awaitable<Status> look(Context context, DamagedChunk& chunk);
  /// Why chunks still wait.
  asio::awaitable<Status> explain(Context context);

  Resources& resources_;
  std::vector<DamagedChunk> chunks_;
  std::set<ChunkId> known_;
  uint64_t unlisted_ = 0, settled_ = 0;
};

}  // namespace kintsugi::client
