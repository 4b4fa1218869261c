/// Knows the records in a disk's segments: which are alive, which are dead but still on the disk, and which tombstones
/// keep those dead.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "chunkserver/store/segments/segment_format.h"
#include "common/runtime/disk.h"

namespace kintsugi::chunkserver {

/// One segment file.
struct Segment {
  uint64_t number = 0, salt = 0;
  std::string path;
  std::shared_ptr<runtime::File> file;
  uint64_t end = 0;         ///< durable bytes
  uint64_t allocated = 0;   ///< bytes that the disk has set aside
  uint64_t live_bytes = 0;  ///< records that are alive, with their headers
  bool given_up =
      false;  ///< its file was removed or cut off: nothing is appended, and what lives is moved away
};

/// For each chunk the record with the highest sequence number counts, unless a tombstone has a higher one. A tombstone
/// is kept as long as a dead record of its chunk may be on the disk: without it, that record would come back to life at
/// the next start.
class SegmentIndex {
 public:
  struct Live {
    std::shared_ptr<Segment> segment;
    uint64_t offset = 0;  ///< where the record begins in the segment
    uint64_t sequence = 0;
    ChunkInfo info;
    bool removing = false;  ///< hidden: its tombstone is on the way
    uint64_t record_bytes() const { return kRecordHeaderBytes + aligned(info.length); }
  };

  // At start, in any order of segments; then settle() once.
  void load(const std::shared_ptr<Segment>& segment, const std::vector<RecordHeader>& records);
  /// Lets tombstones that were loaded take effect. REQUIRES: every segment was loaded.
  void settle();

  // Called once the record is durable in `segment`.
  void put_chunk(const std::shared_ptr<Segment>& segment, const RecordHeader& header);
  /// Puts a copy by the cleaner, which is dead at once when its original is no longer the live record.
  void put_copy(const std::shared_ptr<Segment>& segment, const RecordHeader& header);
  void put_tombstone(const Segment& segment, const Tombstone& tombstone);

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
  std::vector<ChunkId> chunks_in(const Segment& segment) const;
  /// The chunks whose records do not end within the first `bytes` of the segment.
  std::vector<ChunkId> chunks_beyond(const Segment& segment, uint64_t bytes) const;
  /// Tombstones in the segment that keep records of other segments dead.
  std::vector<Tombstone> needed_tombstones(const Segment& segment) const;

  // Numbers that were never used on this disk.
  uint64_t take_sequence() { return next_sequence_++; }
  uint64_t take_group() { return next_group_++; }
  uint64_t take_segment_number() { return next_segment_++; }
  /// A file of this number is here, whether it holds anything or not.
  void saw_segment_number(uint64_t number) { next_segment_ = std::max(next_segment_, number + 1); }

 private:
  struct Grave {
    uint64_t segment = 0;
    uint64_t sequence = 0;
  };

  void load_record(const std::shared_ptr<Segment>& segment, const RecordHeader& header);
  void replace(ChunkId id, Live live);
  void bury(std::map<ChunkId, Live>::iterator live);
  void note_grave(const Segment& segment, const Tombstone& tombstone);

  std::map<uint64_t, std::shared_ptr<Segment>> segments_;  ///< by number
  std::map<ChunkId, Live> live_;
  std::map<ChunkId, std::set<uint64_t>> dead_;  ///< numbers of the segments that hold dead records of a chunk
  std::map<ChunkId, Grave> tombstones_;         ///< the latest one of each chunk
  uint64_t next_sequence_ = 1, next_group_ = 1, next_segment_ = 1;
};

}  // namespace kintsugi::chunkserver
