/// Reads one window of a stripe: the wanted chunks in parallel; where one is missing, failed, corrupt or
/// slow, a tree of servers that add it up, or any k others.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "client/lib/core.h"
#include "client/lib/degraded/tree_fetch.h"
#include "client/lib/read/chunk_fetch.h"
#include "client/lib/read/window_plan.h"
#include "common/proto/types.pb.h"
#include "common/runtime/context.h"
#include "erasure/code.h"

namespace kintsugi::client {

/// Use once. Memory: `buffers_needed` at most, all from the lease given.
///
/// Hedging: a wanted chunk that is not there after the usual time of such a fetch, and after twice the time
/// that the other chunks of the window took, is no longer counted on: further chunks are opened, and
/// whichever k are first win.
///
/// Trees: what counts is what the client's downlink carries. A lost chunk's range costs it that range once by
/// a tree, and once for each chunk that has to be fetched in addition when it is decoded here. Where the
/// window wants all data chunks one more is fetched, so there is nothing to gain; where it wants a part of
/// one cell, k - 1 ranges are, and a tree is used when they hold kTreeSavesBytes or more (less is not worth a
/// plan). One tree a window. If it fails, or lags kTreePatience behind, the others are fetched too, and what
/// is first wins.
class WindowReader {
 public:
  enum class Trees { kAllowed, kNever };
  static constexpr uint64_t kTreeSavesBytes = 512 << 10;
  /// And four times what such a fetch usually takes, if that is more.
  static constexpr Duration kTreePatience = std::chrono::seconds(1);
  static constexpr size_t kTreeWindowBuffers = 4;  ///< for its sums

  /// `stripe` must outlive the reader.
  WindowReader(Core& core, Context context, const proto::Stripe& stripe, const erasure::Policy& policy,
               Window window, Lease lease, Trees trees = Trees::kAllowed);
  ~WindowReader();

  static size_t buffers_needed(const erasure::Policy& policy, const Window& window);

  /// kUnavailable when the chunks that can be read do not suffice, naming the others; no byte that failed its
  /// checksum is ever used.
  asio::awaitable<Status> run();

  const Window& window() const { return window_; }
  /// Once `run` succeeded: the window's user bytes in stripe order.
  std::vector<std::span<const std::byte>> bytes() const;
  /// The same for a range of a wanted chunk within the window: offsets in the chunk, cut where the window
  /// ends.
  std::vector<std::span<const std::byte>> bytes_of(uint32_t chunk, uint64_t begin, uint64_t end) const;
  /// Of others than trees; after `run`.
  size_t chunks_fetched() const;
  uint64_t bytes_fetched() const;

 private:
  enum class State { kIdle, kRunning, kDone, kFailed };

  asio::awaitable<Status> gather();
  asio::awaitable<Status> decode();
  asio::awaitable<void> cancel_rest();
  void start(uint32_t chunk);
  void settle();
  void start_wanted();
  /// Starts what comes next until the wanted chunks can be had from those that are running or done, the ones
  /// in `not_counted` left out, or nothing is left to start.
  void start_enough(bool only_healthy, std::span<const uint32_t> not_counted);
  bool started_are_enough(std::span<const uint32_t> not_counted) const;
  bool done_are_enough() const;
  /// It is in the local group of a wanted chunk that will not come, or is not counted on.
  bool helps_locally(uint32_t chunk) const;
  /// Decoding takes whole cells where rows > 1; a narrow window begins with what is wanted.
  bool covers_cells() const;
  /// Begins again with whole cells, after cancel_rest().
  void widen();
  /// One more chunk for each that lags, unless so many lag that it is the network.
  void hedge();
  /// There is something to save at best.
  static bool may_take_tree(const erasure::Policy& policy, const Window& window);
  /// For the one wanted chunk that does not come, if that pays.
  bool start_tree();
  bool tree_pays(uint32_t chunk) const;
  bool waits_for_tree() const { return tree_ && !tree_->done() && !tree_lags_; }
  void settle_tree();
  void cancel_tree();
  TimePoint look_again() const;
  std::optional<uint32_t> next_candidate(bool only_healthy) const;
  bool healthy(uint32_t chunk) const;
  /// A wanted chunk will not come, or is not counted on: others are needed.
  bool must_decode() const;
  bool all_wanted_done() const;
  TimePoint hedge_time() const;
  Status too_few() const;
  uint64_t chunk_bytes(uint32_t chunk) const;
  std::span<const std::byte> part(uint32_t chunk, size_t index) const;

  Core& core_;
  Context context_;
  const proto::Stripe& stripe_;
  const erasure::Policy policy_;
  const std::shared_ptr<const erasure::Code> code_;
  Window window_;
  Lease lease_;
  runtime::Event changed_;
  TimePoint started_;
  TimePoint last_done_;  // when the latest fetch succeeded
  size_t hedged_ = 0;    // chunks that others were opened for
  bool must_widen_ = false;
  int hedge_rounds_ = 0;
  std::vector<State> states_;                          // by chunk
  std::vector<std::shared_ptr<ChunkFetch>> fetches_;   // by chunk
  std::vector<std::vector<runtime::Buffer>> decoded_;  // by chunk; before the lease goes back
  bool tree_allowed_;
  bool tree_lags_ = false;
  uint32_t tree_chunk_ = 0;
  std::shared_ptr<TreeFetch> tree_;
  std::vector<runtime::Buffer> tree_buffers_;  // before the lease goes back
  std::string failures_;
};

}  // namespace kintsugi::client
