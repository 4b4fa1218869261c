/// Reads one chunk's range as if the chunk were lost: by a tree, or by fetching others and decoding here.
///
/// What `bench degraded-read` measures. Files are read by FileReader, whose windows do the same for
/// themselves.
#pragma once

#include <deque>
#include <optional>

#include "client/lib/degraded/degraded_read.h"
#include "client/lib/read/window_reader.h"

namespace kintsugi::client {

struct LostReadOptions {
  LostReadOptions() {}
  uint64_t offset = 0;  ///< in the chunk
  uint64_t length = 0;  ///< 0: to its end; a range beyond it ends there
  /// Shape of the tree that computes the range. None: the traditional read, which fetches what the code needs (k chunks)
  /// in parallel and decodes it here.
  std::optional<proto::RepairShape> shape = proto::RepairShape::AUTO;
  uint64_t slice_bytes = 0;
  bool fall_back = true;  ///< decode here what no tree could be had for; else that is an error
};

/// Use once. The chunk itself is not read, whether its server lives or not.
class LostChunkRead {
 public:
  /// `stripe` with read capabilities.
  LostChunkRead(Core& core, Context context, proto::Stripe stripe, uint32_t index, LostReadOptions options,
                Sink& sink);

  /// The range went to the sink in order. kCorrupt when a whole chunk does not have its CRC; what the sink
  /// got is provisional until this returns. kInvalidArgument: no such chunk or an empty range. Memory: at
  /// most kLocalWindows windows, or the tree's window; both are reserved.
  asio::awaitable<Result<DegradedReadReport>> run();

  static constexpr size_t kLocalWindows = 3;                   ///< fetched ahead
  static constexpr uint64_t kWindowBytes = uint64_t{2} << 20;  ///< of each chunk in one window

 private:
  struct InFlight {
    std::unique_ptr<WindowReader> reader;
    std::optional<Status> result;
  };

  asio::awaitable<Status> read_by_tree();
  asio::awaitable<Status> read_here();
  asio::awaitable<Status> read_windows();
  asio::awaitable<Result<bool>> start_next();
  asio::awaitable<Status> hand_on_front();
  asio::awaitable<void> run_window(InFlight* window);

  Core& core_;
  Context context_;
  proto::Stripe stripe_;  // without the lost chunk
  const uint32_t index_;
  const LostReadOptions options_;
  Sink& sink_;
  const TimePoint began_;
  proto::ChunkPlacement chunk_;
  erasure::Policy policy_;
  uint64_t begin_ = 0, end_ = 0;
  uint64_t planned_ = 0, next_ = 0;
  uint32_t crc_ = 0;
  std::deque<std::unique_ptr<InFlight>> in_flight_;
  runtime::Event changed_;
  runtime::TaskGroup tasks_;
  DegradedReadReport report_;
};

}  // namespace kintsugi::client
