/// The small chunks of one disk, appended to shared segment files: one sync makes many of them durable.
///
/// Nothing is overwritten. A removal is a tombstone; the index is rebuilt from the segments at start, where
/// for each chunk the record with the highest sequence number counts. Cleaning copies what lives out of a
/// mostly dead segment and deletes the file: copies keep their sequence numbers, so that a crash at any point
/// changes nothing.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include <boost/asio/awaitable.hpp>

#include "chunkserver/store/aligned_memory.h"
#include "chunkserver/store/chunk_format.h"
#include "chunkserver/store/data_disk.h"
#include "chunkserver/store/open_chunk.h"
#include "chunkserver/store/segments/segment_format.h"
#include "common/runtime/context.h"
#include "common/runtime/event.h"
#include "common/runtime/runtime.h"
#include "common/runtime/task_group.h"

namespace kintsugi::chunkserver {

struct SegmentLimits {
  uint64_t segment_bytes = 128ull << 20;
  uint64_t group_bytes = 4ull << 20;  ///< written and synced at once
  size_t group_records = 256;
  uint64_t allocation_step_bytes = 4ull << 20;
  double clean_below = 0.5;  ///< live share of a full segment that makes it worth cleaning
  Duration clean_interval = std::chrono::seconds(30);
};

class SegmentLog {
 public:
  SegmentLog(const runtime::Runtime& runtime, DataDisk& disk, SegmentLimits limits);
  ~SegmentLog();

  /// Rebuilds the index; call once, before anything else. Cuts off torn tails.
  asio::awaitable<Status> load();
  /// The committer and the cleaner run in `tasks` until stop().
  void start(runtime::TaskGroup& tasks);
  /// What is queued is still committed.
  void stop();
  /// The cleaner met a record that is damaged; whoever owns the chunk drops it.
  std::function<void(ChunkId)> on_corrupt;
  /// The cleaner deleted this segment; who keeps it open for reading keeps its space.
  std::function<void(const runtime::File&)> on_delete;

  /// Durable on return. `data` is the chunk, in memory that is readable up to the next 4 KiB border.
  asio::awaitable<Status> append(Context context, ChunkHeader header, std::vector<uint32_t> block_crcs,
                                 std::span<const std::byte> data);
  /// The chunk is hidden at once, and gone for good on return. kNotFound.
  asio::awaitable<Status> remove(Context context, ChunkId id);
  /// kNotFound, kCorrupt, kIoError.
  asio::awaitable<Result<std::shared_ptr<OpenChunk>>> open(ChunkId id);

  std::vector<ChunkInfo> list() const;
  /// Cleans the deadest segment that is worth it; false when there is none.
  asio::awaitable<Result<bool>> clean_one(Context context);

  size_t segments() const { return segments_.size(); }
  uint64_t damaged_records() const { return damaged_records_; }
  uint64_t groups_committed() const { return groups_committed_; }

 private:
  struct Segment {
    uint64_t number = 0, salt = 0;
    std::string path;
    std::shared_ptr<runtime::File> file;
    uint64_t end = 0;  ///< durable bytes
    uint64_t allocated = 0;
    uint64_t live_bytes = 0;
  };
  struct Live {
    std::shared_ptr<Segment> segment;
    uint64_t offset = 0;  ///< of the record
    uint64_t sequence = 0;
    ChunkInfo info;
    bool removing = false;
    uint64_t record_bytes() const { return kRecordHeaderBytes + aligned(info.length); }
  };
  /// One request to the committer; lives in the coroutine that waits for it.
  struct Pending {
    explicit Pending(const runtime::Runtime& runtime) : done(runtime) {}
    RecordHeader header;  ///< a chunk, or exactly one tombstone
    std::span<const std::byte> data;
    bool is_copy = false;
    uint64_t offset = 0;  ///< once placed
    std::optional<Status> result;
    runtime::Event done;
  };
  using Scanned = std::vector<RecordHeader>;

  // segment_log.cc: the committer
  void enqueue(Pending& pending);
  asio::awaitable<Status> wait_for(Pending& pending);
  asio::awaitable<void> commit_groups();
  std::vector<Pending*> take_group();
  asio::awaitable<Status> write_group(std::vector<Pending*>& group);
  AlignedMemory lay_out(std::vector<Pending*>& group, const Segment& segment, uint64_t group_number);
  asio::awaitable<Status> make_room(uint64_t bytes);
  asio::awaitable<void> abandon_active();
  void apply(const std::vector<Pending*>& group);
  void apply_chunk(const Pending& pending);
  void apply_tombstone(const Tombstone& tombstone);

  // segment_loader.cc
  asio::awaitable<Status> load_segment(std::string file_name, SegmentName name);
  asio::awaitable<Result<Scanned>> scan(const Segment& segment, uint64_t size);
  asio::awaitable<Result<bool>> data_is_whole(const Segment& segment, const RecordHeader& header);
  void index_record(const std::shared_ptr<Segment>& segment, const RecordHeader& header);
  void settle_index();

  // segment_cleaner.cc
  asio::awaitable<void> clean_in_background(runtime::TaskGroup& tasks);
  std::shared_ptr<Segment> deadest_segment() const;
  asio::awaitable<Status> clean(Context context, std::shared_ptr<Segment> segment);
  asio::awaitable<Status> copy_live(std::shared_ptr<Segment> segment);
  asio::awaitable<Status> copy_tombstones(const Segment& segment);
  asio::awaitable<Status> delete_segment(std::shared_ptr<Segment> segment);

  const runtime::Runtime& runtime_;
  DataDisk& disk_;
  const SegmentLimits limits_;
  std::map<uint64_t, std::shared_ptr<Segment>> segments_;  ///< by number
  std::shared_ptr<Segment> active_;
  std::map<ChunkId, Live> live_;
  /// Segments that still hold a dead record of a chunk, and the tombstone that keeps it dead.
  std::map<ChunkId, std::set<uint64_t>> dead_;
  struct Grave {
    uint64_t segment = 0;
    uint64_t sequence = 0;
  };
  std::map<ChunkId, Grave> tombstones_;
  uint64_t next_sequence_ = 1, next_group_ = 1, next_number_ = 1;
  std::deque<Pending*> queue_;
  runtime::Event queued_;
  bool stopping_ = false, running_ = false, cleaning_ = false;
  uint64_t damaged_records_ = 0, groups_committed_ = 0;
};

}  // namespace kintsugi::chunkserver
