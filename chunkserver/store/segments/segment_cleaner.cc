/// Gives back the space of removed chunks: copies what lives out of a segment and deletes it.
#include <cstring>

#include "chunkserver/store/segments/segment_log.h"
#include "common/log/log.h"
#include "monitoring/sight/module.h"

namespace kintsugi::chunkserver {
namespace {

constexpr sight::Site kClean{"chunkserver.segment_clean", {"live_bytes", "segment_bytes"}};
constexpr size_t kCopiesAtOnce = 32;

}  // namespace

asio::awaitable<void> SegmentLog::clean_in_background(runtime::TaskGroup& tasks) {
  while (true) {
    bool slept = co_await tasks.sleep_for(limits_.clean_interval);
    if (!slept || disk_.failed()) co_return;
    while (!stopping_) {
      auto cleaned = co_await clean_one(Context{});
      if (!cleaned)
        log::warning("disk {}: cleaning a segment: {}", disk_.root(), cleaned.error().to_string());
      if (!cleaned || !*cleaned) break;
    }
  }
}

std::shared_ptr<SegmentLog::Segment> SegmentLog::deadest_segment() const {
  std::shared_ptr<Segment> deadest;
  double lowest = limits_.clean_below;
  for (const auto& [number, segment] : segments_) {
    if (segment == active_ || segment->end == 0) continue;
    double share = static_cast<double>(segment->live_bytes) / static_cast<double>(segment->end);
    if (share < lowest) {
      lowest = share;
      deadest = segment;
    }
  }
  return deadest;
}

asio::awaitable<Result<bool>> SegmentLog::clean_one(Context context) {
  if (cleaning_) co_return false;
  std::shared_ptr<Segment> segment = deadest_segment();
  if (!segment) co_return false;
  cleaning_ = true;
  Status status = co_await clean(context, segment);
  cleaning_ = false;
  if (!status.ok()) co_return status;
  co_return true;
}

asio::awaitable<Status> SegmentLog::clean(Context context, std::shared_ptr<Segment> segment) {
  sight::Module module{context, kClean, {double(segment->live_bytes), double(segment->end)}};
  Status status = co_await copy_live(segment);
  if (status.ok()) status = co_await copy_tombstones(*segment);
  if (status.ok()) status = co_await delete_segment(segment);
  co_return module.finish(std::move(status));
}

asio::awaitable<Status> SegmentLog::copy_live(std::shared_ptr<Segment> segment) {
  std::vector<ChunkId> ids;
  for (const auto& [id, live] : live_) {
    if (live.segment == segment) ids.push_back(id);
  }
  for (size_t begin = 0; begin < ids.size(); begin += kCopiesAtOnce) {
    std::vector<std::unique_ptr<Pending>> copies;
    std::vector<AlignedMemory> memories;
    for (size_t i = begin; i < std::min(ids.size(), begin + kCopiesAtOnce); ++i) {
      auto found = live_.find(ids[i]);
      if (found == live_.end() || found->second.segment != segment) continue;
      Live live = found->second;
      AlignedMemory memory(live.record_bytes());
      auto read = co_await segment->file->read(live.offset, memory.span());
      if (!read) co_return disk_.note(read.error());
      auto header = decode_record_header(memory.first(*read), segment->salt, live.offset);
      if (!header || header->info != live.info || *read < kRecordHeaderBytes + live.info.length) {
        found = live_.find(ids[i]);
        const bool replaced = found == live_.end() || found->second.sequence != live.sequence;
        if (replaced) continue;
        if (on_corrupt) on_corrupt(ids[i]);
        co_return Status{Code::kCorrupt, fmt::format("record of chunk {}", ids[i])};
      }
      auto copy = std::make_unique<Pending>(runtime_);
      copy->header = std::move(*header);
      copy->data = memory.span().subspan(kRecordHeaderBytes, live.info.length);
      copy->is_copy = true;
      copies.push_back(std::move(copy));
      memories.push_back(std::move(memory));
    }
    if (stopping_ || !running_) co_return Status{Code::kCancelled, "the store is stopping"};
    for (auto& copy : copies)
      enqueue(*copy);
    Status status;
    for (auto& copy : copies) {
      Status one = co_await wait_for(*copy);
      if (status.ok()) status = std::move(one);
    }
    if (!status.ok()) co_return status;
  }
  co_return Status{};
}

asio::awaitable<Status> SegmentLog::copy_tombstones(const Segment& segment) {
  std::vector<std::unique_ptr<Pending>> copies;
  for (const auto& [id, grave] : tombstones_) {
    if (grave.segment != segment.number) continue;
    auto dead = dead_.find(id);
    bool needed = dead != dead_.end() && (dead->second.size() > 1 || !dead->second.contains(segment.number));
    if (!needed) continue;
    auto copy = std::make_unique<Pending>(runtime_);
    copy->header.tombstones.push_back({id, grave.sequence});
    copies.push_back(std::move(copy));
  }
  if (stopping_ || !running_) co_return Status{Code::kCancelled, "the store is stopping"};
  for (auto& copy : copies)
    enqueue(*copy);
  Status status;
  for (auto& copy : copies) {
    Status one = co_await wait_for(*copy);
    if (status.ok()) status = std::move(one);
  }
  co_return status;
}

asio::awaitable<Status> SegmentLog::delete_segment(std::shared_ptr<Segment> segment) {
  if (segment->live_bytes != 0) co_return Status{Code::kConflict, "the segment still has live chunks"};
  KINTSUGI_CO_TRY(disk_.note(co_await disk_.disk().remove(segment->path)));
  segments_.erase(segment->number);
  if (on_delete && segment->file) on_delete(*segment->file);
  // Only when the file is gone for good may the tombstones of its chunks be forgotten.
  KINTSUGI_CO_TRY(disk_.note(co_await disk_.disk().sync_directory(disk_.segments_directory())));
  for (auto dead = dead_.begin(); dead != dead_.end();) {
    dead->second.erase(segment->number);
    if (!dead->second.empty()) {
      ++dead;
      continue;
    }
    tombstones_.erase(dead->first);
    dead = dead_.erase(dead);
  }
  co_return Status{};
}

}  // namespace kintsugi::chunkserver
