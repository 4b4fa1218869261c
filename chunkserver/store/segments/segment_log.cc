#include "chunkserver/store/segments/segment_log.h"

#include <cstring>

#include "monitoring/sight/module.h"

namespace kintsugi::chunkserver {
namespace {

constexpr sight::Site kAppend{"chunkserver.segment_append", {"bytes"}};
constexpr sight::Site kRemove{"chunkserver.segment_remove"};

}  // namespace

SegmentLog::SegmentLog(const runtime::Runtime& runtime, DataDisk& disk, SegmentLimits limits)
    : runtime_(runtime), disk_(disk), limits_(limits), queued_(runtime) {}

SegmentLog::~SegmentLog() {
  KINTSUGI_ASSERT(queue_.empty());
}

void SegmentLog::start(runtime::TaskGroup& tasks) {
  running_ = true;
  tasks.spawn(commit_groups());
  tasks.spawn(clean_in_background(tasks));
}

void SegmentLog::stop() {
  stopping_ = true;
  queued_.notify_all();
}

asio::awaitable<Status> SegmentLog::append(Context context, ChunkHeader header,
                                           std::vector<uint32_t> block_crcs,
                                           std::span<const std::byte> data) {
  sight::Module module{context, kAppend, {double(data.size())}};
  KINTSUGI_ASSERT(header.info.length == data.size() && data.size() <= kSmallChunkBytes);
  if (stopping_ || !running_) co_return module.finish({Code::kCancelled, "the store is stopping"});
  Pending pending(runtime_);
  pending.header.info = header.info;
  pending.header.policy = std::move(header.policy);
  pending.header.block_crcs = std::move(block_crcs);
  pending.header.sequence = next_sequence_++;
  pending.data = data;
  enqueue(pending);
  co_return module.finish(co_await wait_for(pending));
}

asio::awaitable<Status> SegmentLog::remove(Context context, ChunkId id) {
  sight::Module module{context, kRemove};
  auto found = live_.find(id);
  if (found == live_.end() || found->second.removing) {
    co_return module.finish({Code::kNotFound, fmt::format("chunk {} is not here", id)});
  }
  if (stopping_ || !running_) co_return module.finish({Code::kCancelled, "the store is stopping"});
  found->second.removing = true;
  Pending pending(runtime_);
  pending.header.tombstones.push_back({id, next_sequence_++});
  enqueue(pending);
  Status status = co_await wait_for(pending);
  if (!status.ok()) {
    if (auto still = live_.find(id); still != live_.end()) still->second.removing = false;
  }
  co_return module.finish(std::move(status));
}

asio::awaitable<Result<std::shared_ptr<OpenChunk>>> SegmentLog::open(ChunkId id) {
  auto found = live_.find(id);
  if (found == live_.end() || found->second.removing) {
    co_return Status{Code::kNotFound, fmt::format("chunk {} is not here", id)};
  }
  Live live = found->second;
  AlignedMemory memory(kRecordHeaderBytes);
  auto read = co_await live.segment->file->read(live.offset, memory.span());
  if (!read) co_return disk_.note(read.error());
  KINTSUGI_CO_ASSIGN(RecordHeader header,
                     decode_record_header(memory.first(*read), live.segment->salt, live.offset));
  if (header.info != live.info || !header.is_chunk())
    co_return Status{Code::kCorrupt, "record names another chunk"};
  auto chunk = std::make_shared<OpenChunk>();
  chunk->info = header.info;
  chunk->policy = std::move(header.policy);
  chunk->disk = &disk_;
  chunk->file = live.segment->file;
  chunk->data_offset = live.offset + kRecordHeaderBytes;
  chunk->block_crcs = std::move(header.block_crcs);
  co_return chunk;
}

std::vector<ChunkInfo> SegmentLog::list() const {
  std::vector<ChunkInfo> chunks;
  for (const auto& [id, live] : live_)
    chunks.push_back(live.info);
  return chunks;
}

void SegmentLog::enqueue(Pending& pending) {
  queue_.push_back(&pending);
  queued_.notify_all();
}

asio::awaitable<Status> SegmentLog::wait_for(Pending& pending) {
  while (!pending.result)
    co_await pending.done.wait();
  co_return *pending.result;
}

asio::awaitable<void> SegmentLog::commit_groups() {
  while (true) {
    while (queue_.empty() && !stopping_)
      co_await queued_.wait();
    if (queue_.empty()) break;
    std::vector<Pending*> group = take_group();
    Status status = co_await write_group(group);
    for (Pending* pending : group) {
      pending->result = status;
      pending->done.notify_all();
    }
  }
  running_ = false;
}

std::vector<SegmentLog::Pending*> SegmentLog::take_group() {
  std::vector<Pending*> group;
  uint64_t bytes = 0;
  while (!queue_.empty() && group.size() < limits_.group_records) {
    uint64_t record_bytes = queue_.front()->header.record_bytes();
    if (!group.empty() && bytes + record_bytes > limits_.group_bytes) break;
    bytes += record_bytes;
    group.push_back(queue_.front());
    queue_.pop_front();
  }
  return group;
}

AlignedMemory SegmentLog::lay_out(std::vector<Pending*>& group, const Segment& segment,
                                  uint64_t group_number) {
  uint64_t bytes = 0;
  std::vector<RecordHeader> tombstones;
  for (Pending* pending : group) {
    if (pending->header.is_chunk()) {
      pending->offset = segment.end + bytes;
      bytes += pending->header.record_bytes();
      continue;
    }
    if (tombstones.empty() || tombstones.back().tombstones.size() == kMaxTombstonesPerRecord)
      tombstones.emplace_back();
    tombstones.back().tombstones.push_back(pending->header.tombstones.front());
  }
  const uint64_t tombstones_begin = bytes;
  AlignedMemory memory(bytes + tombstones.size() * kRecordHeaderBytes);
  for (Pending* pending : group) {
    if (!pending->header.is_chunk()) continue;
    pending->header.salt = segment.salt;
    pending->header.offset = pending->offset;
    pending->header.group = group_number;
    std::byte* record = memory.data() + (pending->offset - segment.end);
    encode_record_header(pending->header, {record, kRecordHeaderBytes});
    if (!pending->data.empty())
      std::memcpy(record + kRecordHeaderBytes, pending->data.data(), pending->data.size());
  }
  for (size_t i = 0; i < tombstones.size(); ++i) {
    uint64_t at = tombstones_begin + i * kRecordHeaderBytes;
    tombstones[i].salt = segment.salt;
    tombstones[i].offset = segment.end + at;
    tombstones[i].group = group_number;
    encode_record_header(tombstones[i], {memory.data() + at, kRecordHeaderBytes});
  }
  return memory;
}

asio::awaitable<Status> SegmentLog::write_group(std::vector<Pending*>& group) {
  uint64_t most_bytes = 0;
  for (Pending* pending : group)
    most_bytes += pending->header.record_bytes();
  Status status = co_await make_room(most_bytes);
  if (status.ok()) {
    AlignedMemory memory = lay_out(group, *active_, next_group_++);
    status = disk_.note(co_await active_->file->write(active_->end, memory.span()));
    if (status.ok()) status = disk_.note(co_await active_->file->sync());
    if (status.ok()) {
      apply(group);
      active_->end += memory.size();
      ++groups_committed_;
      co_return status;
    }
  }
  // After a failed write or sync nobody knows what the end of the segment holds: go on in another one.
  if (active_) co_await abandon_active();
  co_return status;
}

asio::awaitable<Status> SegmentLog::make_room(uint64_t bytes) {
  if (active_ && active_->end + bytes > limits_.segment_bytes && active_->end > 0) active_.reset();
  if (!active_) {
    auto segment = std::make_shared<Segment>();
    segment->number = next_number_++;
    segment->salt = runtime_.random.next();
    segment->path = disk_.segments_directory() + "/" + segment_file_name(segment->number, segment->salt);
    auto file = co_await disk_.disk().open(segment->path, runtime::OpenMode::kCreate);
    if (!file) co_return disk_.note(file.error());
    segment->file = std::move(*file);
    segments_.emplace(segment->number, segment);
    active_ = std::move(segment);
    KINTSUGI_CO_TRY(disk_.note(co_await disk_.disk().sync_directory(disk_.segments_directory())));
  }
  if (active_->end + bytes > active_->allocated) {
    uint64_t target = round_up(active_->end + bytes, limits_.allocation_step_bytes);
    KINTSUGI_CO_TRY(disk_.note(co_await active_->file->allocate(target)));
    active_->allocated = target;
  }
  co_return Status{};
}

asio::awaitable<void> SegmentLog::abandon_active() {
  std::shared_ptr<Segment> segment = std::move(active_);
  active_.reset();
  if (segment->end == 0) {
    segments_.erase(segment->number);
    (void)disk_.note(co_await disk_.disk().remove(segment->path));
    co_return;
  }
  (void)disk_.note(co_await segment->file->truncate(segment->end));
}

void SegmentLog::apply(const std::vector<Pending*>& group) {
  for (const Pending* pending : group) {
    if (pending->header.is_chunk()) {
      apply_chunk(*pending);
    } else {
      apply_tombstone(pending->header.tombstones.front());
    }
  }
}

void SegmentLog::apply_chunk(const Pending& pending) {
  const ChunkId id = pending.header.info.id;
  auto found = live_.find(id);
  if (pending.is_copy && (found == live_.end() || found->second.sequence != pending.header.sequence)) {
    dead_[id].insert(active_->number);  // removed while it was copied
    return;
  }
  bool removing = false;
  if (found != live_.end()) {
    removing = pending.is_copy && found->second.removing;
    found->second.segment->live_bytes -= found->second.record_bytes();
    dead_[id].insert(found->second.segment->number);
  }
  live_[id] = Live{active_, pending.offset, pending.header.sequence, pending.header.info, removing};
  active_->live_bytes += pending.header.record_bytes();
}

void SegmentLog::apply_tombstone(const Tombstone& tombstone) {
  auto found = live_.find(tombstone.id);
  if (found != live_.end() && found->second.sequence < tombstone.sequence) {
    found->second.segment->live_bytes -= found->second.record_bytes();
    dead_[tombstone.id].insert(found->second.segment->number);
    live_.erase(found);
  }
  Grave& grave = tombstones_[tombstone.id];
  if (tombstone.sequence >= grave.sequence) grave = {active_->number, tombstone.sequence};
}

}  // namespace kintsugi::chunkserver
