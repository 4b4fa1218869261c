/// One segment file, and everything that lies in it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "chunkserver/store/segments/segment_format.h"
#include "common/runtime/disk.h"

namespace kintsugi::chunkserver {

/// The part of a chunk's record that is kept in memory.
struct SegmentRecord {
  ChunkInfo info;
  uint64_t offset = 0;  ///< where the record begins in the segment
  uint64_t sequence = 0;
  uint64_t record_bytes() const { return kRecordHeaderBytes + aligned(info.length); }
};

struct Segment {
  uint64_t number = 0, salt = 0;
  std::string path;
  std::shared_ptr<runtime::File> file;
  uint64_t end = 0;         ///< durable bytes
  uint64_t allocated = 0;   ///< bytes that the disk has set aside
  uint64_t live_bytes = 0;  ///< total size of the live records, headers included
  uint64_t last_group = 0;  ///< group number of the segment's last record
  /// Its file was removed or cut off: nothing is appended, and what lives is moved away.
  bool given_up = false;
  // Dead or alive; whoever has to do with this segment alone looks at nothing else.
  std::vector<SegmentRecord> records;  ///< ordered by offset
  std::vector<Tombstone> tombstones;
};

}  // namespace kintsugi::chunkserver
