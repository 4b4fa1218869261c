/// Reads one window of a stripe: the wanted chunks in parallel; where one is missing, failed, corrupt or slow, a tree
/// of servers that add it up, or any k others.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "client/lib/read/window_chunks.h"
#include "client/lib/read/window_tree.h"
#include "client/lib/resources.h"
#include "common/runtime/context.h"

namespace kintsugi::client {

/// Use once. Memory: `buffers_needed` at most, from the lease given. A window that wants one chunk may begin with that
/// chunk's buffers alone, and takes the rest, when it needs other chunks, if that is free.
///
/// Hedging: a wanted chunk that is not there after some times the usual time of such a fetch (fetch_patience.h), and
/// after twice the time that the other chunks of the window took, is no longer counted on: further chunks are opened,
/// and whichever k are first win. When a tree is worth it instead: window_tree.h.
class WindowReader {
 public:
  enum class Trees { kAllowed, kNever };

  WindowReader(Resources& resources, Context context, StripeWindow window, Trees trees = Trees::kAllowed);

  /// Buffers for any chunks that it may come to read.
  static size_t buffers_needed(const StripeWindow& window);
  /// Buffers for the wanted chunks, if it may begin with those.
  static size_t least_buffers(const StripeWindow& window);
  size_t buffers_needed() const { return buffers_needed_; }
  /// Buffers of its lease, with those that it took for other chunks.
  size_t buffers_held() const { return lease_.count(); }

  /// `lease` has least_buffers(). kUnavailable when the chunks that can be read do not suffice, naming the others;
  /// kLimitExceeded when the lease does not, and no more is free. No byte that failed its checksum is ever used.
  asio::awaitable<Status> run(Lease lease);

  /// Once `run` succeeded: the window's user bytes in stripe order.
  std::vector<std::span<const std::byte>> bytes() const;
  /// The chunks as `run` left them.
  const WindowChunks& chunks() const { return *chunks_; }
  /// Drops the bytes and hands over the lease. REQUIRES: `run` has ended.
  Lease take_lease();

 private:
  asio::awaitable<Status> gather();
  asio::awaitable<void> cancel_rest();
  uint8_t fetches_needed() const;
  /// Decoding takes whole cells where rows > 1; a narrow window begins with the blocks that are wanted.
  bool covers_cells() const;
  /// Begins again with whole cells, after cancel_rest().
  void widen();
  /// Starts one more chunk for each that lags, unless so many lag that it is the network.
  void hedge();
  /// The lease covers other chunks than the wanted, now at least.
  bool may_use_others();
  bool start_tree() { return tree_.start(context_, *chunks_, changed_); }
  TimePoint hedge_time() const;
  /// When to hedge, or to stop waiting for the tree.
  TimePoint look_again() const;

  Resources& resources_;
  Context context_;
  StripeWindow window_;  ///< widened when whole cells are needed
  const size_t buffers_needed_;
  Lease lease_;  ///< share of memory; it is given back after the buffers of chunks_ and tree_
  runtime::Event changed_;
  std::optional<WindowChunks> chunks_;  ///< the window's chunks, from run() on
  WindowTree tree_;
  bool must_widen_ = false;
  int hedge_rounds_ = 0;
  bool no_hedge_left_ = false;  ///< no budget was left when the next round would have begun
};

}  // namespace kintsugi::client
