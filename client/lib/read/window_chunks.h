/// The chunks of one window: which are here, which are on their way, and which to fetch next.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "client/lib/read/chunk_fetch.h"
#include "client/lib/read/stripe_window.h"
#include "client/lib/resources.h"
#include "common/runtime/context.h"
#include "erasure/code.h"

namespace kintsugi::client {

/// All buffers come from a lease of the owner, who gives it back after this is gone. REQUIRES, before it is
/// destroyed: cancel_rest().
class WindowChunks {
 public:
  enum class State { kIdle, kRunning, kDone, kFailed };

  /// `changed` is notified whenever a fetch is done.
  WindowChunks(Resources& resources, Context context, StripeWindow window, runtime::Event& changed);
  ~WindowChunks();

  const StripeWindow& window() const { return window_; }
  const erasure::Code& code() const { return *code_; }
  State state(uint32_t chunk) const { return states_[chunk]; }
  std::vector<uint32_t> in_state(State state) const;
  TimePoint began() const { return began_; }
  TimePoint last_done() const { return last_done_; }  ///< time at which the latest chunk came, or began()

  // ---- fetching
  /// Starts the wanted chunks whose servers look well.
  void start_wanted();
  /// Starts further chunks until the wanted ones can be had from those that are running or done, the ones in
  /// `not_counted` left out, or nothing is left to start.
  void start_enough(bool only_healthy, std::span<const uint32_t> not_counted);
  /// Takes note of the fetches that are done.
  void settle();
  /// Stops counting on the `running` fetches that still run, so that others may be started for them.
  void count_out_running(size_t running) { counted_out_ = running; }
  size_t counted_out() const { return counted_out_; }
  /// Takes a chunk that came another way, by a tree or by decoding.
  void put(uint32_t chunk, std::vector<runtime::Buffer> buffers);
  /// Cancels the fetches that still run, and returns when none of them touches a buffer any more.
  asio::awaitable<void> cancel_rest();

  // ---- how far it is
  bool all_wanted_done() const;
  /// Returns true if a wanted chunk will not come, or is not counted on: others are needed.
  bool must_decode() const;
  bool started_are_enough(std::span<const uint32_t> not_counted) const;
  bool done_are_enough() const;
  /// Returns the error of a window that cannot be read, with the reasons: those of `before`, and of each fetch.
  Status too_few(std::string before) const;

  // ---- bytes
  /// A buffer of a chunk that is done: bytes [index, index + 1) * kBufferBytes of the window.
  std::span<const std::byte> part(uint32_t chunk, size_t index) const;
  /// A range of a chunk that is done: offsets in the chunk, cut where the window ends.
  std::vector<std::span<const std::byte>> bytes_of(uint32_t chunk, uint64_t begin, uint64_t end) const;
  /// Chunks that were fetched themselves, and their bytes.
  size_t chunks_fetched() const;
  uint64_t bytes_fetched() const;

 private:
  void start(uint32_t chunk);
  std::optional<uint32_t> next_candidate(bool only_healthy) const;
  /// A rank for next_candidate: the greater, the sooner it is started.
  int rank(uint32_t chunk, bool healthy) const;
  bool is_healthy(uint32_t chunk) const;
  bool is_wanted(uint32_t chunk) const;
  /// It is in the local group of a wanted chunk that will not come, or is not counted on.
  bool helps_locally(uint32_t chunk) const;
  uint32_t chunks() const { return window_.policy.chunks(); }

  Resources& resources_;
  Context context_;
  const StripeWindow window_;
  const std::shared_ptr<const erasure::Code> code_;
  runtime::Event& changed_;
  const TimePoint began_;
  TimePoint last_done_;
  size_t counted_out_ = 0;
  std::vector<State> states_;                         ///< index: chunk
  std::vector<std::shared_ptr<ChunkFetch>> fetches_;  ///< index: chunk
  std::vector<std::vector<runtime::Buffer>> put_;     ///< index: chunk; buffers that it filled
  std::string failures_;
};

}  // namespace kintsugi::client
