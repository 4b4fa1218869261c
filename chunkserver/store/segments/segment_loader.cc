/// Rebuilds a SegmentLog's index from its files.
#include <cstring>

#include "chunkserver/store/segments/segment_log.h"
#include "common/log/log.h"

namespace kintsugi::chunkserver {
namespace {

constexpr uint64_t kScanBytes = 1 << 20;

}  // namespace

asio::awaitable<Status> SegmentLog::load() {
  auto names = co_await disk_.disk().list(disk_.segments_directory());
  if (!names) co_return disk_.note(names.error());
  for (const std::string& file_name : *names) {
    auto name = parse_segment_file_name(file_name);
    if (!name) {
      log::warning("{}/{} is no segment and is left alone", disk_.segments_directory(), file_name);
      continue;
    }
    next_number_ = std::max(next_number_, name->number + 1);
    KINTSUGI_CO_TRY(co_await load_segment(file_name, *name));
  }
  settle_index();
  co_return Status{};
}

asio::awaitable<Status> SegmentLog::load_segment(std::string file_name, SegmentName name) {
  auto segment = std::make_shared<Segment>();
  segment->number = name.number;
  segment->salt = name.salt;
  segment->path = disk_.segments_directory() + "/" + file_name;
  auto file = co_await disk_.disk().open(segment->path, runtime::OpenMode::kReadWrite);
  if (!file) co_return disk_.note(file.error());
  segment->file = std::move(*file);
  auto size = co_await segment->file->size();
  if (!size) co_return disk_.note(size.error());
  auto records = co_await scan(*segment, *size);
  if (!records) co_return records.error();

  // Groups are synced one after the other, so only the last one may be torn. None of a torn group was
  // acknowledged.
  const uint64_t last_group = records->empty() ? 0 : records->back().group;
  Scanned whole;
  for (RecordHeader& header : *records) {
    if (header.is_chunk() && header.group == last_group) {
      auto is_whole = co_await data_is_whole(*segment, header);
      if (!is_whole) co_return is_whole.error();
      if (!*is_whole) {
        ++damaged_records_;
        continue;
      }
    }
    whole.push_back(std::move(header));
  }
  if (whole.empty()) {
    segment->file.reset();
    co_return disk_.note(co_await disk_.disk().remove(segment->path));
  }
  segment->end = whole.back().offset + whole.back().record_bytes();
  if (segment->end < *size) {
    KINTSUGI_CO_TRY(disk_.note(co_await segment->file->truncate(segment->end)));
    KINTSUGI_CO_TRY(disk_.note(co_await segment->file->sync()));
  }
  segment->allocated = segment->end;
  segments_.emplace(segment->number, segment);
  for (const RecordHeader& header : whole)
    index_record(segment, header);
  co_return Status{};
}

asio::awaitable<Result<SegmentLog::Scanned>> SegmentLog::scan(const Segment& segment, uint64_t size) {
  Scanned records;
  AlignedMemory window(kScanBytes);
  uint64_t offset = 0;
  uint64_t expected = 0;  // where the next record begins if nothing is damaged
  while (offset + kRecordHeaderBytes <= size) {
    auto read = co_await segment.file->read(offset, window.span());
    if (!read) co_return disk_.note(read.error());
    uint64_t at = 0;
    while (at + kRecordHeaderBytes <= *read) {
      auto header =
          decode_record_header(window.span().subspan(at, kRecordHeaderBytes), segment.salt, offset + at);
      if (!header || offset + at + header->record_bytes() > size) {
        at += runtime::kDiskAlignment;
        continue;
      }
      if (offset + at != expected) ++damaged_records_;
      at += header->record_bytes();
      expected = offset + at;
      records.push_back(std::move(*header));
    }
    if (at == 0) break;  // the file got shorter
    offset += at;
  }
  co_return records;
}

asio::awaitable<Result<bool>> SegmentLog::data_is_whole(const Segment& segment, const RecordHeader& header) {
  if (header.info.length == 0) co_return true;
  AlignedMemory data(header.info.length);
  auto read = co_await segment.file->read(header.offset + kRecordHeaderBytes, data.span());
  if (!read) co_return disk_.note(read.error());
  co_return *read >=
      header.info.length&& check_blocks(data.first(header.info.length), header.block_crcs, 0).ok();
}

void SegmentLog::index_record(const std::shared_ptr<Segment>& segment, const RecordHeader& header) {
  next_group_ = std::max(next_group_, header.group + 1);
  for (const Tombstone& tombstone : header.tombstones) {
    next_sequence_ = std::max(next_sequence_, tombstone.sequence + 1);
    Grave& grave = tombstones_[tombstone.id];
    if (tombstone.sequence >= grave.sequence) grave = {segment->number, tombstone.sequence};
  }
  if (!header.is_chunk()) return;
  next_sequence_ = std::max(next_sequence_, header.sequence + 1);
  auto found = live_.find(header.info.id);
  if (found != live_.end() && found->second.sequence >= header.sequence) {
    dead_[header.info.id].insert(segment->number);
    return;
  }
  if (found != live_.end()) dead_[header.info.id].insert(found->second.segment->number);
  live_[header.info.id] = Live{segment, header.offset, header.sequence, header.info, false};
}

void SegmentLog::settle_index() {
  for (auto grave = tombstones_.begin(); grave != tombstones_.end();) {
    auto found = live_.find(grave->first);
    if (found != live_.end() && found->second.sequence < grave->second.sequence) {
      dead_[grave->first].insert(found->second.segment->number);
      live_.erase(found);
    }
    grave = dead_.contains(grave->first) ? std::next(grave) : tombstones_.erase(grave);
  }
  for (const auto& [id, live] : live_)
    live.segment->live_bytes += live.record_bytes();
}

}  // namespace kintsugi::chunkserver
