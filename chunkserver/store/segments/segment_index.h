/// Knows the records in a disk's segments: which are alive, which are dead but still on the disk, and which tombstones
/// keep those dead.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "chunkserver/store/segments/segment.h"

namespace kintsugi::chunkserver {

/// For each chunk the record with the highest sequence number counts, unless a tombstone has a higher one. A tombstone
/// is kept as long as a dead record of its chunk may be on the disk: without it, that record would come back to life at
/// the next start.
///
/// A segment owns the list of what lies in it, so that cleaning one costs what it holds, however much the disk has.
class SegmentIndex {
 public:
  struct Live {
    std::shared_ptr<Segment> segment;
    uint32_t position = 0;  ///< position in Segment::records
    bool removing = false;  ///< hidden from readers: its tombstone is being written
    const SegmentRecord& record() const { return segment->records[position]; }
  };

  // At start, in any order of segments; then settle() once.
  /// Takes the records and tombstones that the segment was given.
  void load(const std::shared_ptr<Segment>& segment);
  /// Lets tombstones that were loaded take effect. REQUIRES: every segment was loaded.
  void settle();

  // Called once the record is durable in `segment`.
  void put_chunk(const std::shared_ptr<Segment>& segment, const RecordHeader& header);
  /// Puts a copy by the cleaner, which is dead at once when its original is no longer the live record.
  void put_copy(const std::shared_ptr<Segment>& segment, const RecordHeader& header);
  void put_tombstone(Segment& segment, const Tombstone& tombstone);

  /// Null when there is no live record. Valid until the index changes.
  const Live* find(ChunkId id) const;
  /// Hides the chunk, or shows it again. REQUIRES: it is live.
  void set_removing(ChunkId id, bool removing);
  std::vector<ChunkInfo> list() const;

  // Segments.
  void add_segment(std::shared_ptr<Segment> segment);
  /// The file is removed, but may come back after a power loss.
  void drop_segment(const Segment& segment) { segments_.erase(segment.number); }
  /// The file is gone for good: so are its dead records, and tombstones that were there for those alone.
  void forget_segment(const Segment& segment);
  bool holds(const Segment& segment) const { return segments_.contains(segment.number); }
  std::vector<std::shared_ptr<Segment>> segments() const;
  /// One that was given up, or else the one with the smallest live share, if that is below `share`; not `active`, which
  /// still grows.
  std::shared_ptr<Segment> deadest(double share, const Segment* active) const;
  /// True when the record at this position of the segment is its chunk's latest one.
  bool is_live(const Segment& segment, size_t position) const;
  /// The chunks whose records do not end within the first `bytes` of the segment.
  std::vector<ChunkId> chunks_beyond(const Segment& segment, uint64_t bytes) const;
  /// True when this tombstone of the segment keeps records of other segments dead.
  bool is_needed(const Segment& segment, const Tombstone& tombstone) const;
  /// Records and tombstones that the calls about a segment looked at; what cleaning costs is this.
  uint64_t looked_at() const { return looked_at_; }

  // Numbers that were never used on this disk.
  uint64_t take_sequence() { return next_sequence_++; }
  uint64_t take_group() { return next_group_++; }
  uint64_t take_segment_number() { return next_segment_++; }
  /// A file of this number is here, whether it holds anything or not.
  void saw_segment_number(uint64_t number) { next_segment_ = std::max(next_segment_, number + 1); }

 private:
  /// The latest tombstone of a chunk.
  struct Grave {
    uint64_t segment = 0;  ///< number of the segment
    uint64_t sequence = 0;
  };
  /// A chunk's earlier copies that are still on the disk.
  struct Past {
    /// Numbers of the segments that hold dead records of the chunk, each once.
    std::vector<uint64_t> segments;
    std::optional<Grave> grave;
  };

  void load_record(const std::shared_ptr<Segment>& segment, uint32_t position);
  /// Adds the record to what lies in the segment.
  static Live add_record(const std::shared_ptr<Segment>& segment, const RecordHeader& header);
  void replace(Live live);
  void bury(ChunkId id, const Live& live);
  void note_dead(ChunkId id, const Segment& segment);
  void note_grave(const Segment& segment, const Tombstone& tombstone);

  std::map<uint64_t, std::shared_ptr<Segment>> segments_;  ///< key: number of the segment
  std::unordered_map<ChunkId, Live> live_;
  std::unordered_map<ChunkId, Past> past_;
  uint64_t next_sequence_ = 1, next_group_ = 1, next_segment_ = 1;
  mutable uint64_t looked_at_ = 0;
};

}  // namespace kintsugi::chunkserver
