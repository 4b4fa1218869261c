/// Appends records to the newest segment of a disk, many with one sync.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <boost/asio/awaitable.hpp>

#include "chunkserver/store/disk/aligned_memory.h"
#include "chunkserver/store/disk/data_disk.h"
#include "chunkserver/store/segments/segment_index.h"
#include "common/runtime/event.h"
#include "common/runtime/runtime.h"
#include "common/runtime/task_group.h"

namespace kintsugi::chunkserver {

struct SegmentLimits {
  uint64_t segment_bytes = 128ull << 20;
  uint64_t group_bytes = 4ull << 20;  ///< most bytes that are written and synced at once
  size_t group_records = 256;
  uint64_t allocation_step_bytes = 1ull << 20;
  double clean_below = 0.5;  ///< a full segment with a smaller live share is worth cleaning
  Duration clean_interval = std::chrono::seconds(30);

  /// What lives in a segment that is cleaned is there twice until the segment is deleted. A disk that had no room for
  /// that could not give back what was deleted on it.
  uint64_t room_to_clean() const {
    return static_cast<uint64_t>(clean_below * static_cast<double>(segment_bytes));
  }
};

/// Records that come while a group is being synced wait for the next one, which takes them all: the busier the disk,
/// the larger the groups. References outlive it.
class SegmentAppender {
 public:
  SegmentAppender(const runtime::Runtime& runtime, DataDisk& disk, const SegmentLimits& limits,
                  SegmentIndex& index);
  ~SegmentAppender();

  /// Commits groups in `tasks` until stop().
  void start(runtime::TaskGroup& tasks);
  /// Takes no more records; those that are queued are still committed.
  void stop();
  bool accepts() const { return running_ && !stopping_; }

  /// A request to append one record. Lives in the coroutine that waits for it.
  struct Record {
    /// REQUIRES: `header` is a chunk's, with its data, or holds exactly one tombstone. The data outlives the record.
    Record(const runtime::Runtime& runtime, RecordHeader header, std::span<const std::byte> data = {})
        : header(std::move(header)), data(data), done(runtime) {}

    RecordHeader header;  ///< salt, offset and group are filled in by the appender
    std::span<const std::byte> data;
    bool is_copy = false;          ///< made by the cleaner: SegmentIndex::put_copy
    std::optional<Status> result;  ///< set once the record is durable or has failed
    runtime::Event done;
  };
  /// Queues the record. It is not destroyed before wait() returned. REQUIRES: accepts().
  void enqueue(Record& record);
  /// The record is durable and in the index, or will never be there. kNoSpace, kIoError.
  asio::awaitable<Status> wait(Record& record);
  /// Queues the record and waits for it.
  asio::awaitable<Status> append(Record& record) {
    enqueue(record);
    return wait(record);
  }

  /// The segment does not grow any more, from the next group on at the latest: until then it is still active().
  void give_up(Segment& segment);

  /// The segment that grows; null when the next group begins one.
  const Segment* active() const { return active_.get(); }

 private:
  using Group = std::vector<Record*>;

  asio::awaitable<void> commit_groups();
  Group take_group();
  void end(Record& record, const Status& status);
  asio::awaitable<Status> write_group(Group& group);
  AlignedMemory lay_out(Group& group, uint64_t group_number) const;
  void put_into_index(const Group& group);
  asio::awaitable<Status> make_room(uint64_t bytes);
  asio::awaitable<Status> begin_segment();
  asio::awaitable<void> abandon_active();

  const runtime::Runtime& runtime_;
  DataDisk& disk_;
  const SegmentLimits& limits_;
  SegmentIndex& index_;
  std::shared_ptr<Segment> active_;
  std::deque<Record*> queue_;
  runtime::Event queued_;
  bool stopping_ = false, running_ = false;
  bool writing_ = false;  ///< a group is being written to the active segment
};

}  // namespace kintsugi::chunkserver
