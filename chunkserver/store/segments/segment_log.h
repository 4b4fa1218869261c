/// The small chunks of one disk, appended to shared segment files: one sync makes many of them durable.
///
/// Nothing is overwritten. A removal is a tombstone; the index is rebuilt from the segments at start, where for each
/// chunk the record with the highest sequence number counts. Cleaning copies what lives out of a mostly dead segment
/// and deletes the file: copies keep their sequence numbers, so that a crash at any point changes nothing.
#pragma once

#include <memory>
#include <vector>

#include <boost/asio/awaitable.hpp>

#include "chunkserver/store/disk/chunk_format.h"
#include "chunkserver/store/disk/data_disk.h"
#include "chunkserver/store/disk/open_chunk.h"
#include "chunkserver/store/segments/segment_appender.h"
#include "chunkserver/store/segments/segment_cleaner.h"
#include "chunkserver/store/segments/segment_index.h"
#include "common/runtime/context.h"
#include "common/runtime/runtime.h"
#include "common/runtime/task_group.h"

namespace kintsugi::chunkserver {

/// References outlive it. The disk counts its I/O errors.
class SegmentLog {
 public:
  SegmentLog(const runtime::Runtime& runtime, DataDisk& disk, SegmentLimits limits);

  /// Rebuilds the index; call once, before anything else. Cuts off torn tails. kIoError.
  asio::awaitable<Status> load();
  /// The appender and the cleaner run in `tasks` until stop().
  void start(runtime::TaskGroup& tasks);
  /// Records that are queued are still committed.
  void stop() { appender_.stop(); }

  /// Durable on return; takes the place of an older record of the chunk. `data` is the chunk. kCancelled: stopping;
  /// kNoSpace, kIoError.
  asio::awaitable<Status> append(Context context, ChunkHeader header, std::vector<uint32_t> block_crcs,
                                 std::span<const std::byte> data);
  /// The chunk is hidden at once, and gone for good on return; after an error it is there again. kNotFound.
  asio::awaitable<Status> remove(Context context, ChunkId id);
  /// Opens a chunk for reading by the header of its record. kNotFound, kCorrupt, kIoError.
  asio::awaitable<Result<std::shared_ptr<OpenChunk>>> open(ChunkId id);
  /// Opens a chunk of at most one block without the disk: what its header says is known here, and its bytes are checked
  /// when they are read. Null: it is longer, or not here.
  std::shared_ptr<OpenChunk> open_one_block(ChunkId id) const;

  std::vector<ChunkInfo> list() const { return index_.list(); }

  std::vector<std::shared_ptr<Segment>> segments() const { return index_.segments(); }
  /// The segment's file was removed, or cut off at `bytes`. As long as it is open here its chunks can be read: nothing
  /// more is appended to it, and the cleaner moves them away the next time it runs. Chunks beyond `bytes` are lost: the
  /// cleaner's on_corrupt is called for each. Nothing happens when the segment is given up or deleted already.
  void give_up(const std::shared_ptr<Segment>& segment, uint64_t bytes);

  SegmentCleaner& cleaner() { return cleaner_; }

 private:
  const runtime::Runtime& runtime_;
  DataDisk& disk_;
  const SegmentLimits limits_;
  SegmentIndex index_;
  SegmentAppender appender_;
  SegmentCleaner cleaner_;
};

}  // namespace kintsugi::chunkserver
