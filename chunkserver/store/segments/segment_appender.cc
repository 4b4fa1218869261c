#include "chunkserver/store/segments/segment_appender.h"

#include <cstring>

#include "chunkserver/store/segments/segment_sealer.h"
#include "common/runtime/fault_points.h"

namespace kintsugi::chunkserver {

using runtime::FaultPoint;

namespace {

constexpr uint64_t kZerosAtOnce = 1 << 20;

}  // namespace

SegmentAppender::SegmentAppender(const runtime::Runtime& runtime, DataDisk& disk, const SegmentLimits& limits,
                                 SegmentIndex& index)
    : runtime_(runtime), disk_(disk), limits_(limits), index_(index), queued_(runtime) {}

SegmentAppender::~SegmentAppender() {
  KINTSUGI_ASSERT(queue_.empty());
}

void SegmentAppender::start(runtime::TaskGroup& tasks) {
  running_ = true;
  tasks.spawn(commit_groups());
}

void SegmentAppender::stop() {
  stopping_ = true;
  queued_.notify_all();
}

void SegmentAppender::give_up(Segment& segment) {
  segment.given_up = true;
  if (active_.get() == &segment && !writing_) active_.reset();
}

void SegmentAppender::enqueue(Record& record) {
  KINTSUGI_ASSERT(accepts());
  queue_.push_back(&record);
  queued_.notify_all();
}

asio::awaitable<Status> SegmentAppender::wait(Record& record) {
  while (!record.result)
    co_await record.done.wait();
  co_return *record.result;
}

// The only coroutine that writes to segments: groups follow each other, and everything below may assume that `active_`
// and its end do not change while it waits.
asio::awaitable<void> SegmentAppender::commit_groups() {
  while (true) {
    while (queue_.empty() && !stopping_)
      co_await queued_.wait();
    // Nothing is enqueued any more once it stops, so that an empty queue stays empty.
    if (queue_.empty()) break;
    Group group = take_group();
    writing_ = true;
    Status status = co_await write_group(group);
    writing_ = false;
    if (active_ && active_->given_up) active_.reset();
    for (Record* record : group)
      end(*record, status);
  }
  if (active_ && active_->end > 0) co_await seal(disk_, std::exchange(active_, nullptr));
  running_ = false;
}

void SegmentAppender::end(Record& record, const Status& status) {
  const auto wake = [&record] { record.done.notify_all(); };
  // Whoever waits for the record keeps it, and whoever does not would end without the fault.
  runtime::FaultPoints* const faults = record.done.waiting() > 0 ? runtime_.faults : nullptr;
  runtime::do_or_lose(faults, {FaultPoint::kComplete, "record"}, [faults, &record, status, wake] {
    record.result = status;
    runtime::do_or_lose(faults, {FaultPoint::kWake, "record"}, wake);
  });
}

SegmentAppender::Group SegmentAppender::take_group() {
  Group group;
  uint64_t bytes = 0;
  while (!queue_.empty() && group.size() < limits_.group_records) {
    const uint64_t record_bytes = queue_.front()->header.record_bytes();
    if (!group.empty() && bytes + record_bytes > limits_.group_bytes) break;
    bytes += record_bytes;
    group.push_back(queue_.front());
    queue_.pop_front();
  }
  return group;
}

asio::awaitable<Status> SegmentAppender::write_group(Group& group) {
  uint64_t most_bytes = 0;  // an upper limit: tombstones will share records
  for (const Record* record : group)
    most_bytes += record->header.record_bytes();
  Status status = co_await make_room(most_bytes);
  if (status.ok()) {
    const uint64_t group_number = index_.take_group();
    const AlignedMemory memory = lay_out(group, group_number);
    status = disk_.note(co_await active_->file->write(active_->end, memory.span()));
    if (status.ok()) status = disk_.note(co_await active_->file->sync());
    if (status.ok()) {
      // The commit point: the group is durable. Only now does the index show it, and only now is it acknowledged.
      active_->last_group = group_number;
      put_into_index(group);
      active_->end += memory.size();
      co_return status;
    }
  }
  // After a failed write or sync nobody knows what the end of the segment holds: continue in another one.
  if (active_) co_await abandon_active();
  co_return status;
}

/// Chunks first, one behind the other, then all tombstones in as few records as they fit into.
AlignedMemory SegmentAppender::lay_out(Group& group, uint64_t group_number) const {
  const Segment& segment = *active_;
  uint64_t bytes = 0;
  std::vector<RecordHeader> tombstones;
  for (Record* record : group) {
    if (record->header.is_chunk()) {
      record->header.offset = segment.end + bytes;
      bytes += record->header.record_bytes();
      continue;
    }
    if (tombstones.empty() || tombstones.back().tombstones.size() == kMaxTombstonesPerRecord)
      tombstones.emplace_back();
    tombstones.back().tombstones.push_back(record->header.tombstones.front());
  }
  for (RecordHeader& header : tombstones) {
    header.offset = segment.end + bytes;
    bytes += kRecordHeaderBytes;
  }
  AlignedMemory memory(bytes);  // zero-filled, as headers and padding require
  const auto place = [&](RecordHeader& header) {
    header.salt = segment.salt;
    header.group = group_number;
    std::byte* record = memory.data() + (header.offset - segment.end);
    encode_record_header(header, {record, kRecordHeaderBytes});
    return record + kRecordHeaderBytes;
  };
  for (Record* record : group) {
    if (!record->header.is_chunk()) continue;
    std::byte* data = place(record->header);
    if (!record->data.empty()) std::memcpy(data, record->data.data(), record->data.size());
  }
  for (RecordHeader& header : tombstones)
    place(header);
  return memory;
}

void SegmentAppender::put_into_index(const Group& group) {
  for (const Record* record : group) {
    if (!record->header.is_chunk()) {
      index_.put_tombstone(*active_, record->header.tombstones.front());
    } else if (record->is_copy) {
      index_.put_copy(active_, record->header);
    } else {
      index_.put_chunk(active_, record->header);
    }
  }
}

asio::awaitable<Status> SegmentAppender::make_room(uint64_t bytes) {
  // A group never spans two segments. One that is larger than a segment gets one of its own.
  if (active_ && active_->end + bytes > limits_.segment_bytes && active_->end > 0)
    co_await seal(disk_, std::exchange(active_, nullptr));
  if (!active_) KINTSUGI_CO_TRY(co_await begin_segment());
  if (active_->end + bytes > active_->allocated) {
    // In large steps, and written with zeros once: the sync of a group in blocks that were never written has to write
    // the file's metadata besides.
    const uint64_t target = round_up(active_->end + bytes, limits_.allocation_step_bytes);
    KINTSUGI_CO_TRY(disk_.note(co_await active_->file->allocate(target)));
    const uint64_t begin = std::max(active_->allocated, active_->end);
    const AlignedMemory zeros(std::min(target - begin, kZerosAtOnce));
    for (uint64_t at = begin; at < target; at += zeros.size()) {
      const auto part = zeros.span().first(std::min<uint64_t>(zeros.size(), target - at));
      KINTSUGI_CO_TRY(disk_.note(co_await active_->file->write(at, part)));
    }
    active_->allocated = target;
  }
  co_return Status{};
}

asio::awaitable<Status> SegmentAppender::begin_segment() {
  auto segment = std::make_shared<Segment>();
  segment->number = index_.take_segment_number();
  segment->salt = runtime_.random.next();
  segment->path = disk_.segments_directory() + "/" + segment_file_name(segment->number, segment->salt);
  auto file = co_await disk_.disk().open(segment->path, runtime::OpenMode::kCreate);
  if (!file) co_return disk_.note(file.error());
  segment->file = std::move(*file);
  index_.add_segment(segment);
  disk_.keep_free(limits_.room_to_clean());
  active_ = std::move(segment);
  // Before the first group: a synced record in a file whose name a power loss takes away would be lost.
  co_return disk_.note(co_await disk_.disk().sync_directory(disk_.segments_directory()));
}

asio::awaitable<void> SegmentAppender::abandon_active() {
  const std::shared_ptr<Segment> segment = std::exchange(active_, nullptr);
  if (segment->end == 0) {
    index_.drop_segment(*segment);
    (void)disk_.note(co_await disk_.disk().remove(segment->path));
    co_return;
  }
  // Best effort: if the group's bytes stay, they may come back at the next start as records that were never
  // acknowledged, which a failed write may do.
  (void)disk_.note(co_await segment->file->truncate(segment->end));
}

}  // namespace kintsugi::chunkserver
