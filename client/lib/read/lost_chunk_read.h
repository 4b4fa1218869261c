/// Reads one chunk's range as if the chunk were lost: by a tree, or by fetching others and decoding here.
///
/// `bench degraded-read` measures this. Files are read by FileReader, whose windows do the same for themselves.
#pragma once

#include <memory>
#include <optional>

#include "client/lib/degraded/degraded_read.h"
#include "client/lib/read/read_pipeline.h"
#include "client/lib/read/window_reader.h"

namespace kintsugi::client {

struct LostReadOptions {
  uint64_t offset = 0;  ///< offset in the chunk
  uint64_t length = 0;  ///< 0: to its end; a range beyond it ends there
  /// Shape of the tree that computes the range. None: the traditional read, which fetches what the code needs (k
  /// chunks) in parallel and decodes it here.
  std::optional<proto::RepairShape> shape = proto::RepairShape::AUTO;
  uint64_t slice_bytes = 0;
  bool fall_back = true;  ///< decode here when no tree could be had; else that is an error
};

/// Use once. The chunk itself is not read, whether its server lives or not.
class LostChunkRead final : private ReadPipeline<WindowReader>::User {
 public:
  /// `stripe` with read capabilities.
  LostChunkRead(Resources& resources, Context context, proto::Stripe stripe, uint32_t index,
                LostReadOptions options, Sink& sink);

  /// Ok: the range went to the sink in order. kCorrupt when a whole chunk does not have its CRC; the sink's bytes are
  /// provisional until this returns. kInvalidArgument: no such chunk or an empty range. Memory: at most kLocalWindows
  /// windows, or the tree's window; both are reserved.
  asio::awaitable<Status> run();
  const DegradedReadReport& report() const { return report_; }

  static constexpr size_t kLocalWindows = 3;                   ///< windows that are fetched ahead
  static constexpr uint64_t kWindowBytes = uint64_t{2} << 20;  ///< the bytes of each chunk in one window

 private:
  asio::awaitable<Status> read();
  asio::awaitable<Status> read_by_tree();
  asio::awaitable<Status> read_here();
  asio::awaitable<Status> plan_next(std::unique_ptr<WindowReader>& next) override;
  asio::awaitable<Status> take(ReadPipeline<WindowReader>::InFlight& window) override;

  Resources& resources_;
  Context context_;
  const std::shared_ptr<proto::Stripe> stripe_;
  const uint32_t index_;
  const LostReadOptions options_;
  Sink& sink_;
  const TimePoint began_;
  erasure::Policy policy_;
  LostRange range_;
  uint64_t next_ = 0;     ///< offset in the chunk up to which the sink has bytes
  uint64_t planned_ = 0;  ///< offset up to which windows were planned
  uint32_t crc_ = 0;      ///< the CRC of the bytes that the sink has
  DegradedReadReport report_;
};

}  // namespace kintsugi::client
