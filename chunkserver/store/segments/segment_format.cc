#include "chunkserver/store/segments/segment_format.h"

#include <charconv>

#include "chunkserver/store/disk/bytes.h"

namespace kintsugi::chunkserver {
namespace {

constexpr uint32_t kRecordMagic = 0x4345534B;  // "KSEC"
constexpr uint16_t kRecordVersion = 1;
enum Kind : uint16_t { kChunk = 1, kTombstones = 2 };
constexpr size_t kCrcOffset = kRecordHeaderBytes - sizeof(uint32_t);

Status not_a_record() {
  return {Code::kCorrupt, "not a record of this segment"};
}

}  // namespace

void encode_record_header(const RecordHeader& header, std::span<std::byte> out) {
  KINTSUGI_ASSERT(header.tombstones.size() <= kMaxTombstonesPerRecord);
  KINTSUGI_ASSERT(header.block_crcs.size() == blocks_of(header.info.length));
  ByteWriter writer(out.first(kCrcOffset));
  writer.put(kRecordMagic);
  writer.put(kRecordVersion);
  writer.put(header.is_chunk() ? kChunk : kTombstones);
  writer.put(header.salt);
  writer.put(header.offset);
  writer.put(header.group);
  writer.put(header.sequence);
  if (header.is_chunk()) {
    writer.put(header.info.id.stripe.value);
    writer.put(header.info.id.index);
    writer.put(header.info.length);
    writer.put(header.info.crc);
    writer.put_text(header.policy);
    for (uint32_t crc : header.block_crcs)
      writer.put(crc);
  } else {
    writer.put(static_cast<uint32_t>(header.tombstones.size()));
    for (const Tombstone& tombstone : header.tombstones) {
      writer.put(tombstone.id.stripe.value);
      writer.put(tombstone.id.index);
      writer.put(tombstone.sequence);
    }
  }
  uint32_t crc = crc32c(out.first(kCrcOffset));
  std::memcpy(out.data() + kCrcOffset, &crc, sizeof crc);
}

Result<RecordHeader> decode_record_header(std::span<const std::byte> bytes, uint64_t salt, uint64_t offset) {
  if (bytes.size() < kRecordHeaderBytes) return not_a_record();
  ByteReader reader(bytes.first(kCrcOffset));
  if (reader.get<uint32_t>() != kRecordMagic || reader.get<uint16_t>() != kRecordVersion)
    return not_a_record();
  uint32_t crc;
  std::memcpy(&crc, bytes.data() + kCrcOffset, sizeof crc);
  if (crc32c(bytes.first(kCrcOffset)) != crc) return not_a_record();
  uint16_t kind = reader.get<uint16_t>();
  RecordHeader header;
  header.salt = reader.get<uint64_t>();
  header.offset = reader.get<uint64_t>();
  header.group = reader.get<uint64_t>();
  header.sequence = reader.get<uint64_t>();
  if (header.salt != salt || header.offset != offset) return not_a_record();
  if (kind == kChunk) {
    header.info.id.stripe = StripeId(reader.get<uint64_t>());
    header.info.id.index = reader.get<uint32_t>();
    header.info.length = reader.get<uint64_t>();
    header.info.crc = reader.get<uint32_t>();
    header.policy = reader.get_text();
    if (header.info.length > kSmallChunkBytes) return not_a_record();
    for (uint64_t block = 0; block < blocks_of(header.info.length); ++block) {
      header.block_crcs.push_back(reader.get<uint32_t>());
    }
  } else if (kind == kTombstones) {
    uint32_t count = reader.get<uint32_t>();
    if (count == 0 || count > kMaxTombstonesPerRecord) return not_a_record();
    for (uint32_t i = 0; i < count; ++i) {
      Tombstone tombstone;
      tombstone.id.stripe = StripeId(reader.get<uint64_t>());
      tombstone.id.index = reader.get<uint32_t>();
      tombstone.sequence = reader.get<uint64_t>();
      header.tombstones.push_back(tombstone);
    }
  } else {
    return not_a_record();
  }
  if (!reader.ok()) return not_a_record();
  return header;
}

std::string segment_file_name(uint64_t number, uint64_t salt) {
  return fmt::format("{:016x}-{:016x}.seg", number, salt);
}

Result<SegmentName> parse_segment_file_name(std::string_view text) {
  SegmentName name;
  if (text.size() == 37) {
    std::from_chars(text.data(), text.data() + 16, name.number, 16);
    std::from_chars(text.data() + 17, text.data() + 33, name.salt, 16);
  }
  if (segment_file_name(name.number, name.salt) != text) {
    return Status{Code::kInvalidArgument, "not the name of a segment"};
  }
  return name;
}

}  // namespace kintsugi::chunkserver
