// Records of segments: what a disk gives back after a crash may be anything.
#include "chunkserver/store/segments/segment_format.h"
#include "tests/fuzz/subject.h"

namespace kintsugi::fuzz {
namespace {

using namespace chunkserver;

constexpr size_t kSaltOffset = 8, kOffsetOffset = 16;  // of the fields in a header
constexpr uint64_t kSalt = 0xf00dfeed00000001, kOffset = 8192;

using Record = std::array<std::byte, kRecordHeaderBytes>;

Record encode(const RecordHeader& header) {
  Record record{};
  encode_record_header(header, record);
  return record;
}

RecordHeader chunk_record(uint64_t length) {
  RecordHeader header{.salt = kSalt, .offset = kOffset, .group = 5, .sequence = 77};
  header.info = {.id = {StripeId{81}, 3}, .length = length, .crc = 0x12345678};
  header.policy = "rs-6-3-1024k";
  header.block_crcs.assign(blocks_of(length), 0xabcdef01);
  return header;
}

std::vector<std::string> seeds() {
  std::vector<RecordHeader> headers = {chunk_record(0), chunk_record(1), chunk_record(100'000),
                                       chunk_record(1 << 20)};
  for (size_t count : {size_t{1}, size_t{7}, kMaxTombstonesPerRecord}) {
    headers.push_back({.salt = kSalt, .offset = kOffset, .group = 6, .sequence = 78});
    headers.back().tombstones.assign(count, {.id = {StripeId{82}, 1}, .sequence = 9});
  }
  std::vector<std::string> all;
  for (const RecordHeader& header : headers) {
    const Record record = encode(header);
    // Zeros at the end are what inputs are padded with.
    std::string bytes(reinterpret_cast<const char*>(record.data()), record.size() - sizeof(uint32_t));
    all.push_back(bytes.substr(0, bytes.find_last_not_of('\0') + 1));
  }
  return all;
}

void check_same(const RecordHeader& a, const RecordHeader& b) {
  require(a.salt == b.salt && a.offset == b.offset && a.group == b.group && a.sequence == b.sequence,
          "a record is read as it was written");
  require(a.info == b.info && a.policy == b.policy && a.block_crcs == b.block_crcs,
          "a chunk is read as it was written");
  require(a.tombstones.size() == b.tombstones.size(), "tombstones are read as they were written");
  for (size_t i = 0; i < a.tombstones.size(); ++i) {
    require(a.tombstones[i].id == b.tombstones[i].id && a.tombstones[i].sequence == b.tombstones[i].sequence,
            "tombstones are read as they were written");
  }
}

void check_refused(std::span<const std::byte> record, uint64_t salt, uint64_t offset,
                   std::string_view promise) {
  const auto header = decode_record_header(record, salt, offset);
  require(!header && header.error().code() == Code::kCorrupt, promise);
  require_one_line(header.error().message());
}

void check_header(Record record, uint64_t salt, uint64_t offset, size_t flipped) {
  const auto header = decode_record_header(record, salt, offset);
  if (!header) return check_refused(record, salt, offset, "what is no record is corrupt");
  require(header->salt == salt && header->offset == offset, "a record is of its place");
  require(header->info.length <= kSmallChunkBytes, "a record's length has a limit");
  require(header->record_bytes() <= kRecordHeaderBytes + kSmallChunkBytes, "a record's length has a limit");
  require(header->block_crcs.size() == blocks_of(header->info.length), "each block has its checksum");
  const auto again = decode_record_header(encode(*header), salt, offset);
  require(again.has_value(), "what was read can be written and read again");
  check_same(*header, *again);

  check_refused(record, salt + 1, offset, "a record of another segment is none");
  check_refused(record, salt, offset + 4096, "a record of another place is none");
  check_refused(std::span(record).first(record.size() - 1), salt, offset, "a record that is cut off is none");
  record[flipped / 8] ^= std::byte{1} << flipped % 8;
  check_refused(record, salt, offset, "a record with a flipped bit is none");
}

void check(std::string_view input) {
  Record record{};
  std::memcpy(record.data(), input.data(), std::min(input.size(), record.size()));
  uint64_t salt, offset;
  std::memcpy(&salt, record.data() + kSaltOffset, sizeof salt);
  std::memcpy(&offset, record.data() + kOffsetOffset, sizeof offset);
  const uint32_t found = crc32c(record);  // any function of the input
  const size_t flipped = found % (record.size() * 8);
  check_header(record, salt, offset, flipped);
  // The checksum is mended: nearly no mutation would come past it.
  const std::span body = std::span(record).first(record.size() - sizeof(uint32_t));
  const uint32_t crc = crc32c(body);
  std::memcpy(record.data() + body.size(), &crc, sizeof crc);
  check_header(record, salt, offset, flipped);
}

const Registration registration{{"segment_record", seeds, check}};

}  // namespace
}  // namespace kintsugi::fuzz
