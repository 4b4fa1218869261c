/// Layout of a segment file: records at 4 KiB borders, each a 4 KiB header and the data of one small chunk.
///
/// A record is believed only at its own place: the header holds the segment's salt (random, in the file's
/// name) and its offset, so that neither old bytes nor a chunk's contents can pass for one.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "chunkserver/store/disk/chunk_info.h"
#include "common/base/status.h"

namespace kintsugi::chunkserver {

inline constexpr uint64_t kRecordHeaderBytes = 4096;
inline constexpr size_t kMaxTombstonesPerRecord = 192;

/// Says that the chunk is no more, as far as it was written before `sequence`.
struct Tombstone {
  ChunkId id;
  uint64_t sequence = 0;
};

struct RecordHeader {
  uint64_t salt = 0;      ///< salt of the segment
  uint64_t offset = 0;    ///< offset of this header in the segment
  uint64_t group = 0;     ///< shared by all records of one sync
  uint64_t sequence = 0;  ///< orders the changes of a chunk; a copy keeps the number of its original
  ChunkInfo info;  ///< the chunk that `policy` and `block_crcs` belong to; none in a record of tombstones
  std::string policy;
  std::vector<uint32_t> block_crcs;
  std::vector<Tombstone> tombstones;  ///< a record with tombstones has no chunk and no data

  bool is_chunk() const { return tombstones.empty(); }
  uint64_t record_bytes() const { return kRecordHeaderBytes + aligned(info.length); }
};

/// REQUIRES: `out` has kRecordHeaderBytes, and is zero.
void encode_record_header(const RecordHeader& header, std::span<std::byte> out);
/// The reverse, for bytes that may be anything. kCorrupt: not a whole header that belongs at this place.
Result<RecordHeader> decode_record_header(std::span<const std::byte> bytes, uint64_t salt, uint64_t offset);

/// Number and salt: "0000000000000007-f00dfeed00000001.seg".
std::string segment_file_name(uint64_t number, uint64_t salt);
struct SegmentName {
  uint64_t number = 0, salt = 0;
};
Result<SegmentName> parse_segment_file_name(std::string_view name);

}  // namespace kintsugi::chunkserver
