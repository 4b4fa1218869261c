#include "chunkserver/store/segments/segment_index.h"

namespace kintsugi::chunkserver {

void SegmentIndex::load(const std::shared_ptr<Segment>& segment, const std::vector<RecordHeader>& records) {
  add_segment(segment);
  for (const RecordHeader& header : records)
    load_record(segment, header);
}

void SegmentIndex::load_record(const std::shared_ptr<Segment>& segment, const RecordHeader& header) {
  next_group_ = std::max(next_group_, header.group + 1);
  for (const Tombstone& tombstone : header.tombstones) {
    next_sequence_ = std::max(next_sequence_, tombstone.sequence + 1);
    note_grave(*segment, tombstone);
  }
  if (!header.is_chunk()) return;
  next_sequence_ = std::max(next_sequence_, header.sequence + 1);
  const ChunkId id = header.info.id;
  const auto found = live_.find(id);
  // Equal sequence numbers are a record and its copy, which was made before a crash kept its segment from being
  // deleted: either will do.
  if (found != live_.end() && found->second.sequence >= header.sequence) {
    dead_[id].insert(segment->number);
    return;
  }
  if (found != live_.end()) dead_[id].insert(found->second.segment->number);
  live_[id] = Live{segment, header.offset, header.sequence, header.info, false};
}

void SegmentIndex::settle() {
  for (auto grave = tombstones_.begin(); grave != tombstones_.end();) {
    const auto found = live_.find(grave->first);
    if (found != live_.end() && found->second.sequence < grave->second.sequence) {
      dead_[grave->first].insert(found->second.segment->number);
      live_.erase(found);
    }
    // All segments were read: where nothing is dead, no record can come back.
    grave = dead_.contains(grave->first) ? std::next(grave) : tombstones_.erase(grave);
  }
  for (const auto& [id, live] : live_)
    live.segment->live_bytes += live.record_bytes();
}

void SegmentIndex::put_chunk(const std::shared_ptr<Segment>& segment, const RecordHeader& header) {
  replace(header.info.id, Live{segment, header.offset, header.sequence, header.info, false});
}

void SegmentIndex::put_copy(const std::shared_ptr<Segment>& segment, const RecordHeader& header) {
  const ChunkId id = header.info.id;
  const Live* original = find(id);
  // Removed or replaced while it was copied. The copy lies behind a tombstone or record with a higher sequence number,
  // and is as dead as its original; a tombstone must now outlive this segment as well.
  if (original == nullptr || original->sequence != header.sequence) {
    dead_[id].insert(segment->number);
    return;
  }
  // A removal whose tombstone is still on the way goes on: it looks for the chunk, not for the place.
  replace(id, Live{segment, header.offset, header.sequence, header.info, original->removing});
}

void SegmentIndex::put_tombstone(const Segment& segment, const Tombstone& tombstone) {
  // A chunk that was written anew after the tombstone was queued has a higher sequence number, and stays.
  const auto found = live_.find(tombstone.id);
  if (found != live_.end() && found->second.sequence < tombstone.sequence) bury(found);
  note_grave(segment, tombstone);
}

void SegmentIndex::replace(ChunkId id, Live live) {
  if (const auto found = live_.find(id); found != live_.end()) bury(found);
  live.segment->live_bytes += live.record_bytes();
  live_.emplace(id, std::move(live));
}

void SegmentIndex::bury(std::map<ChunkId, Live>::iterator live) {
  live->second.segment->live_bytes -= live->second.record_bytes();
  dead_[live->first].insert(live->second.segment->number);
  live_.erase(live);
}

void SegmentIndex::note_grave(const Segment& segment, const Tombstone& tombstone) {
  Grave& grave = tombstones_[tombstone.id];
  // Equal: a copy of the same tombstone, whose segment will outlive the original's.
  if (tombstone.sequence >= grave.sequence) grave = {segment.number, tombstone.sequence};
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
  for (const auto& [id, live] : live_)
    chunks.push_back(live.info);
  return chunks;
}

void SegmentIndex::add_segment(std::shared_ptr<Segment> segment) {
  saw_segment_number(segment->number);
  segments_.emplace(segment->number, std::move(segment));
}

void SegmentIndex::forget_segment(const Segment& segment) {
  drop_segment(segment);
  for (auto dead = dead_.begin(); dead != dead_.end();) {
    dead->second.erase(segment.number);
    if (!dead->second.empty()) {
      ++dead;
      continue;
    }
    tombstones_.erase(dead->first);
    dead = dead_.erase(dead);
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

std::vector<ChunkId> SegmentIndex::chunks_in(const Segment& segment) const {
  std::vector<ChunkId> ids;
  for (const auto& [id, live] : live_) {
    if (live.segment.get() == &segment) ids.push_back(id);
  }
  return ids;
}

std::vector<ChunkId> SegmentIndex::chunks_beyond(const Segment& segment, uint64_t bytes) const {
  std::vector<ChunkId> ids;
  for (const auto& [id, live] : live_) {
    if (live.segment.get() == &segment && live.offset + live.record_bytes() > bytes) ids.push_back(id);
  }
  return ids;
}

std::vector<std::shared_ptr<Segment>> SegmentIndex::segments() const {
  std::vector<std::shared_ptr<Segment>> segments;
  for (const auto& [number, segment] : segments_)
    segments.push_back(segment);
  return segments;
}

std::vector<Tombstone> SegmentIndex::needed_tombstones(const Segment& segment) const {
  std::vector<Tombstone> needed;
  for (const auto& [id, grave] : tombstones_) {
    if (grave.segment != segment.number) continue;
    const auto dead = dead_.find(id);
    if (dead == dead_.end()) continue;
    const bool elsewhere = dead->second.size() > 1 || !dead->second.contains(segment.number);
    if (elsewhere) needed.push_back({id, grave.sequence});
  }
  return needed;
}

}  // namespace kintsugi::chunkserver
