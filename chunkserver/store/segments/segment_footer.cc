#include "chunkserver/store/segments/segment_footer.h"

#include "chunkserver/store/disk/bytes.h"

namespace kintsugi::chunkserver {
namespace {

constexpr uint32_t kFooterMagic = 0x5446534B;  // "KSFT"
constexpr uint16_t kFooterVersion = 1;
constexpr uint64_t kRecordBytes = 32, kTombstoneBytes = 20, kTrailerBytes = 64;

struct Trailer {
  uint64_t salt = 0;
  uint64_t end = 0;  ///< where the footer begins
  uint64_t last_group = 0;
  uint32_t records = 0, tombstones = 0;
  uint32_t crc = 0;  ///< CRC32C of the footer up to this field

  uint64_t footer_bytes() const {
    return aligned(records * kRecordBytes + tombstones * kTombstoneBytes + kTrailerBytes);
  }
};

Status not_a_footer() {
  return {Code::kCorrupt, "not a footer of this segment"};
}

void put_trailer(const Trailer& trailer, std::span<std::byte> footer) {
  ByteWriter writer(footer.last(kTrailerBytes));
  writer.put(kFooterMagic);
  writer.put(kFooterVersion);
  writer.put(uint16_t{0});
  writer.put(trailer.salt);
  writer.put(trailer.end);
  writer.put(trailer.last_group);
  writer.put(trailer.records);
  writer.put(trailer.tombstones);
  const uint32_t crc = crc32c(footer.first(footer.size() - sizeof(uint32_t)));
  std::memcpy(footer.data() + footer.size() - sizeof crc, &crc, sizeof crc);
}

Result<Trailer> get_trailer(std::span<const std::byte> bytes) {
  if (bytes.size() < kTrailerBytes) return not_a_footer();
  ByteReader reader(bytes.last(kTrailerBytes));
  if (reader.get<uint32_t>() != kFooterMagic || reader.get<uint16_t>() != kFooterVersion)
    return not_a_footer();
  reader.get<uint16_t>();
  Trailer trailer;
  trailer.salt = reader.get<uint64_t>();
  trailer.end = reader.get<uint64_t>();
  trailer.last_group = reader.get<uint64_t>();
  trailer.records = reader.get<uint32_t>();
  trailer.tombstones = reader.get<uint32_t>();
  std::memcpy(&trailer.crc, bytes.data() + bytes.size() - sizeof trailer.crc, sizeof trailer.crc);
  return trailer;
}

ChunkId get_id(ByteReader& reader) {
  const StripeId stripe(reader.get<uint64_t>());
  return {stripe, reader.get<uint32_t>()};
}

}  // namespace

AlignedMemory encode_footer(const Segment& segment) {
  const Trailer trailer{.salt = segment.salt,
                        .end = segment.end,
                        .last_group = segment.last_group,
                        .records = static_cast<uint32_t>(segment.records.size()),
                        .tombstones = static_cast<uint32_t>(segment.tombstones.size())};
  AlignedMemory footer(trailer.footer_bytes());
  ByteWriter writer(footer.span());
  for (const SegmentRecord& record : segment.records) {
    writer.put(record.info.id.stripe.value);
    writer.put(record.info.id.index);
    writer.put(static_cast<uint32_t>(record.info.length));
    writer.put(record.info.crc);
    writer.put(static_cast<uint32_t>(record.offset / runtime::kDiskAlignment));
    writer.put(record.sequence);
  }
  for (const Tombstone& tombstone : segment.tombstones) {
    writer.put(tombstone.id.stripe.value);
    writer.put(tombstone.id.index);
    writer.put(tombstone.sequence);
  }
  put_trailer(trailer, footer.span());
  return footer;
}

Result<uint64_t> footer_bytes(std::span<const std::byte> block, uint64_t salt, uint64_t file_bytes) {
  KINTSUGI_ASSIGN(const Trailer trailer, get_trailer(block));
  const uint64_t bytes = trailer.footer_bytes();
  if (trailer.salt != salt || bytes > file_bytes || trailer.end != file_bytes - bytes) return not_a_footer();
  return bytes;
}

Status decode_footer(std::span<const std::byte> footer, Segment& segment) {
  KINTSUGI_ASSIGN(const Trailer trailer, get_trailer(footer));
  if (trailer.salt != segment.salt || trailer.footer_bytes() != footer.size()) return not_a_footer();
  if (crc32c(footer.first(footer.size() - sizeof trailer.crc)) != trailer.crc) return not_a_footer();
  ByteReader reader(footer);
  std::vector<SegmentRecord> records(trailer.records);
  uint64_t end = 0;  // end of the previous record
  for (SegmentRecord& record : records) {
    record.info.id = get_id(reader);
    record.info.length = reader.get<uint32_t>();
    record.info.crc = reader.get<uint32_t>();
    record.offset = reader.get<uint32_t>() * runtime::kDiskAlignment;
    record.sequence = reader.get<uint64_t>();
    if (record.offset < end || record.info.length > kSmallChunkBytes) return not_a_footer();
    end = record.offset + record.record_bytes();
  }
  if (end > trailer.end) return not_a_footer();
  std::vector<Tombstone> tombstones(trailer.tombstones);
  for (Tombstone& tombstone : tombstones) {
    tombstone.id = get_id(reader);
    tombstone.sequence = reader.get<uint64_t>();
  }
  segment.end = trailer.end;
  segment.last_group = trailer.last_group;
  segment.records = std::move(records);
  segment.tombstones = std::move(tombstones);
  return {};
}

}  // namespace kintsugi::chunkserver
