/// The degraded read that a window may use for one wanted chunk that does not come.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "client/lib/degraded/degraded_fetch.h"
#include "client/lib/read/window_chunks.h"

namespace kintsugi::client {

/// The measure is the number of bytes that the client's downlink carries. A lost chunk's range costs it that range once
/// by a tree, and once for each chunk that has to be fetched in addition when it is decoded here. Where the window
/// wants all data chunks one more is fetched, so there is nothing to gain; where it wants a part of one cell, k - 1
/// ranges are, and a tree is used when they hold kSavesBytes or more (less is not worth a plan). There is one tree a
/// window. If it fails, or lags kPatience behind, the others are fetched too, and whichever is first wins.
class WindowTree {
 public:
  static constexpr uint64_t kSavesBytes = 512 << 10;
  /// A tree is waited for so long, or four times what such a fetch usually takes if that is more.
  static constexpr Duration kPatience = std::chrono::seconds(1);
  /// Buffers that the window's lease has for slices that are added up, besides those of the chunk's range.
  static constexpr size_t kSumBuffers = 4;

  /// False when a tree can save nothing, whatever is lost.
  static bool may_pay(const StripeWindow& window);

  WindowTree(Resources& resources, bool allowed) : resources_(resources), allowed_(allowed) {}
  ~WindowTree();

  /// Starts the tree for the one wanted chunk that is not done, if that pays; false otherwise, and after the first
  /// time. `changed` is notified when it is done.
  bool start(Context context, const WindowChunks& chunks, runtime::Event& changed);
  bool is_running() const { return fetch_ && !fetch_->done(); }
  /// It runs, and does not lag yet.
  bool is_waited_for() const { return is_running() && !lags_; }
  void count_out() { lags_ = true; }
  /// When it lags. REQUIRES: is_running().
  TimePoint patience_end(const WindowChunks& chunks) const;
  /// Hands the chunk over once it is here.
  void settle(WindowChunks& chunks);
  /// It touches no buffer any more.
  void cancel();
  /// Why the tree failed; empty if it did not.
  const std::string& failure() const { return failure_; }

 private:
  static bool pays(const WindowChunks& chunks, uint32_t chunk);

  Resources& resources_;
  bool allowed_;  ///< a tree may be used, and none was used yet
  bool lags_ = false;
  uint32_t chunk_ = 0;
  std::shared_ptr<DegradedFetch> fetch_;
  std::vector<runtime::Buffer> buffers_;
  std::string failure_;
};

}  // namespace kintsugi::client
