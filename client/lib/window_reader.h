/// Reads one window of a stripe: the wanted chunks in parallel, or any k others where one is missing, failed,
/// corrupt or slow.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "client/lib/chunk_fetch.h"
#include "client/lib/core.h"
#include "client/lib/window_plan.h"
#include "common/proto/types.pb.h"
#include "common/runtime/context.h"
#include "erasure/code.h"

namespace kintsugi::client {

/// Use once. Memory: `buffers_needed` at most, all from the lease given.
///
/// Hedging: a wanted chunk that is not there after the usual time of such a fetch, and after twice the time
/// that the other chunks of the window took, is no longer counted on: further chunks are opened, and
/// whichever k are first win.
class WindowReader {
 public:
  /// `stripe` must outlive the reader.
  WindowReader(Core& core, Context context, const proto::Stripe& stripe, const erasure::Policy& policy,
               Window window, Lease lease);
  ~WindowReader();

  static size_t buffers_needed(const erasure::Policy& policy, const Window& window);

  /// kUnavailable when fewer than k chunks can be read, naming each; no byte that failed its checksum is ever
  /// used.
  asio::awaitable<Status> run();

  const Window& window() const { return window_; }
  /// Once `run` succeeded: the window's user bytes in stripe order.
  std::vector<std::span<const std::byte>> bytes() const;

 private:
  enum class State { kIdle, kRunning, kDone, kFailed };

  asio::awaitable<Status> gather();
  asio::awaitable<Status> decode();
  asio::awaitable<void> cancel_rest();
  void start(uint32_t chunk);
  void settle();
  void start_wanted();
  /// Starts what comes next until `target` chunks are running or done, or nothing is left to start.
  void start_up_to(size_t target, bool only_healthy);
  /// One more chunk for each that lags, unless so many lag that it is the network.
  void hedge();
  std::optional<uint32_t> next_candidate(bool only_healthy) const;
  bool healthy(uint32_t chunk) const;
  /// A wanted chunk will not come, or is not counted on: any k chunks are needed.
  bool must_decode() const;
  bool all_wanted_done() const;
  size_t count(State state) const;
  TimePoint hedge_time() const;
  Status too_few() const;
  uint64_t chunk_bytes(uint32_t chunk) const;
  std::span<const std::byte> part(uint32_t chunk, size_t index) const;

  Core& core_;
  Context context_;
  const proto::Stripe& stripe_;
  const erasure::Policy policy_;
  const Window window_;
  Lease lease_;
  runtime::Event changed_;
  const TimePoint started_;
  TimePoint last_done_;  // when the latest fetch succeeded
  size_t hedged_ = 0;    // chunks opened beyond the k that are needed
  int hedge_rounds_ = 0;
  std::vector<State> states_;                          // by chunk
  std::vector<std::shared_ptr<ChunkFetch>> fetches_;   // by chunk
  std::vector<std::vector<runtime::Buffer>> decoded_;  // by chunk; before the lease goes back
  std::string failures_;
};

}  // namespace kintsugi::client
