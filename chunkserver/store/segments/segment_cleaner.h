/// Gives back the space of removed chunks: copies what lives out of a segment and deletes the file.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include <boost/asio/awaitable.hpp>

#include "chunkserver/store/disk/data_disk.h"
#include "chunkserver/store/segments/segment_appender.h"
#include "chunkserver/store/segments/segment_index.h"
#include "common/runtime/context.h"
#include "common/runtime/task_group.h"

namespace kintsugi::chunkserver {

/// Copies keep their sequence numbers, so that a crash at any point changes nothing: whichever of the two is read first
/// at the next start, the chunk is the same. References outlive it.
class SegmentCleaner {
 public:
  SegmentCleaner(const runtime::Runtime& runtime, DataDisk& disk, const SegmentLimits& limits,
                 SegmentIndex& index, SegmentAppender& appender)
      : runtime_(runtime), disk_(disk), limits_(limits), index_(index), appender_(appender) {}

  /// Cleans every clean_interval in `tasks`, until those or the appender stop.
  void start(runtime::TaskGroup& tasks);
  /// Cleans the deadest segment that is worth it; false when there is none, or one is being cleaned.
  asio::awaitable<Result<bool>> clean_one(Context context);

  /// A record is damaged; whoever owns the chunk drops it.
  std::function<void(ChunkId)> on_corrupt = [](ChunkId) {};
  /// The file was deleted; its space comes back once nobody keeps it open for reading.
  std::function<void(const runtime::File&)> on_delete = [](const runtime::File&) {};

 private:
  struct Copy;
  using Copies = std::vector<std::unique_ptr<Copy>>;

  asio::awaitable<void> run(runtime::TaskGroup& tasks);
  asio::awaitable<Status> clean(Context context, std::shared_ptr<Segment> segment);
  asio::awaitable<Status> copy_live(const Segment& segment);
  asio::awaitable<Status> copy_tombstones(const Segment& segment);
  /// Reads the live record at this position of the segment. Null when the chunk was removed or replaced meanwhile.
  asio::awaitable<Result<std::unique_ptr<Copy>>> read(const Segment& segment, size_t position);
  asio::awaitable<Status> append(Copies copies);
  asio::awaitable<Status> delete_segment(const Segment& segment);

  const runtime::Runtime& runtime_;
  DataDisk& disk_;
  const SegmentLimits& limits_;
  SegmentIndex& index_;
  SegmentAppender& appender_;
  bool cleaning_ = false;
};

}  // namespace kintsugi::chunkserver
