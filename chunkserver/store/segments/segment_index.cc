#include "chunkserver/store/segments/segment_index.h"

#include <algorithm>

namespace kintsugi::chunkserver {

void SegmentIndex::load(const std::shared_ptr<Segment>& segment) {
  add_segment(segment);
  next_group_ = std::max(next_group_, segment->last_group + 1);
  for (uint32_t position = 0; position < segment->records.size(); ++position)
    load_record(segment, position);
  for (const Tombstone& tombstone : segment->tombstones) {
    next_sequence_ = std::max(next_sequence_, tombstone.sequence + 1);
    note_grave(*segment, tombstone);
  }
}

void SegmentIndex::load_record(const std::shared_ptr<Segment>& segment, uint32_t position) {
  const SegmentRecord& record = segment->records[position];
  const ChunkId id = record.info.id;
  next_sequence_ = std::max(next_sequence_, record.sequence + 1);
  const auto [found, is_first] = live_.try_emplace(id, Live{segment, position, false});
  if (is_first) return;
  // Equal sequence numbers are a record and its copy, which was made before a crash kept its segment from being
  // deleted: either will do.
  if (found->second.record().sequence >= record.sequence) return note_dead(id, *segment);
  note_dead(id, *found->second.segment);
  found->second = Live{segment, position, false};
}

void SegmentIndex::settle() {
  for (auto past = past_.begin(); past != past_.end();) {
    const auto& [id, known] = *past;
    const auto found = live_.find(id);
    if (known.grave && found != live_.end() && found->second.record().sequence < known.grave->sequence) {
      note_dead(id, *found->second.segment);
      live_.erase(found);
    }
    // All segments were read: where nothing is dead, no record can come back.
    past = known.segments.empty() ? past_.erase(past) : std::next(past);
  }
  for (const auto& [id, live] : live_)
    live.segment->live_bytes += live.record().record_bytes();
}

SegmentIndex::Live SegmentIndex::add_record(const std::shared_ptr<Segment>& segment,
                                            const RecordHeader& header) {
  segment->records.push_back({header.info, header.offset, header.sequence});
  return {segment, static_cast<uint32_t>(segment->records.size() - 1), false};
}

void SegmentIndex::put_chunk(const std::shared_ptr<Segment>& segment, const RecordHeader& header) {
  replace(add_record(segment, header));
}

void SegmentIndex::put_copy(const std::shared_ptr<Segment>& segment, const RecordHeader& header) {
  Live copy = add_record(segment, header);
  const Live* original = find(header.info.id);
  // Removed or replaced while it was copied. The copy lies behind a tombstone or record with a higher sequence number,
  // and is as dead as its original; a tombstone must now outlive this segment as well.
  if (original == nullptr || original->record().sequence != header.sequence)
    return note_dead(header.info.id, *segment);
  // A removal whose tombstone is still on the way continues: it looks for the chunk, not for the place.
  copy.removing = original->removing;
  replace(std::move(copy));
}

void SegmentIndex::put_tombstone(Segment& segment, const Tombstone& tombstone) {
  segment.tombstones.push_back(tombstone);
  // A chunk that was written anew after the tombstone was queued has a higher sequence number, and stays.
  const auto found = live_.find(tombstone.id);
  if (found != live_.end() && found->second.record().sequence < tombstone.sequence) {
    bury(tombstone.id, found->second);
    live_.erase(found);
  }
  // Where nothing is dead, no record can come back.
  if (past_.contains(tombstone.id)) note_grave(segment, tombstone);
}

void SegmentIndex::replace(Live live) {
  const ChunkId id = live.record().info.id;
  live.segment->live_bytes += live.record().record_bytes();
  const auto [found, is_first] = live_.try_emplace(id, live);
  if (is_first) return;
  bury(id, found->second);
  found->second = std::move(live);
}

void SegmentIndex::bury(ChunkId id, const Live& live) {
  live.segment->live_bytes -= live.record().record_bytes();
  note_dead(id, *live.segment);
}

void SegmentIndex::note_dead(ChunkId id, const Segment& segment) {
  std::vector<uint64_t>& segments = past_[id].segments;
  if (std::ranges::find(segments, segment.number) == segments.end()) segments.push_back(segment.number);
}

void SegmentIndex::note_grave(const Segment& segment, const Tombstone& tombstone) {
  std::optional<Grave>& grave = past_[tombstone.id].grave;
  // Equal: a copy of the same tombstone, whose segment will outlive the original's.
  if (!grave || tombstone.sequence >= grave->sequence) grave = Grave{segment.number, tombstone.sequence};
}

const SegmentIndex::Live* SegmentIndex::find(ChunkId id) const {
  const auto found = live_.find(id);
  return found == live_.end() ? nullptr : &found->second;
}

void SegmentIndex::set_removing(ChunkId id, bool removing) {
  const auto found = live_.find(id);
  KINTSUGI_ASSERT(found != live_.end());
  found->second.removing = removing;
}

std::vector<ChunkInfo> SegmentIndex::list() const {
  std::vector<ChunkInfo> chunks;
  chunks.reserve(live_.size());
  for (const auto& [id, live] : live_)
    chunks.push_back(live.record().info);
  return chunks;
}

void SegmentIndex::add_segment(std::shared_ptr<Segment> segment) {
  saw_segment_number(segment->number);
  segments_.emplace(segment->number, std::move(segment));
}

void SegmentIndex::forget_segment(const Segment& segment) {
  drop_segment(segment);
  for (const SegmentRecord& record : segment.records) {
    ++looked_at_;
    const auto past = past_.find(record.info.id);
    if (past == past_.end()) continue;
    std::erase(past->second.segments, segment.number);
    if (past->second.segments.empty()) past_.erase(past);
  }
}

std::shared_ptr<Segment> SegmentIndex::deadest(double share, const Segment* active) const {
  std::shared_ptr<Segment> deadest;
  double lowest = share;
  for (const auto& [number, segment] : segments_) {
    if (segment.get() == active || segment->end == 0) continue;
    if (segment->given_up) return segment;
    const double live = static_cast<double>(segment->live_bytes) / static_cast<double>(segment->end);
    if (live < lowest) {
      lowest = live;
      deadest = segment;
    }
  }
  return deadest;
}

bool SegmentIndex::is_live(const Segment& segment, size_t position) const {
  ++looked_at_;
  const Live* live = find(segment.records[position].info.id);
  return live != nullptr && live->segment.get() == &segment && live->position == position;
}

std::vector<ChunkId> SegmentIndex::chunks_beyond(const Segment& segment, uint64_t bytes) const {
  std::vector<ChunkId> ids;
  for (size_t position = 0; position < segment.records.size(); ++position) {
    const SegmentRecord& record = segment.records[position];
    if (record.offset + record.record_bytes() > bytes && is_live(segment, position))
      ids.push_back(record.info.id);
  }
  return ids;
}

std::vector<std::shared_ptr<Segment>> SegmentIndex::segments() const {
  std::vector<std::shared_ptr<Segment>> segments;
  for (const auto& [number, segment] : segments_)
    segments.push_back(segment);
  return segments;
}

bool SegmentIndex::is_needed(const Segment& segment, const Tombstone& tombstone) const {
  ++looked_at_;
  const auto past = past_.find(tombstone.id);
  if (past == past_.end() || !past->second.grave) return false;
  const Grave& grave = *past->second.grave;
  const bool is_latest = grave.segment == segment.number && grave.sequence == tombstone.sequence;
  return is_latest && std::ranges::any_of(past->second.segments,
                                          [&](uint64_t number) { return number != segment.number; });
}

}  // namespace kintsugi::chunkserver
