// Footers of segments: what a disk gives back after a crash may be anything.
#include "chunkserver/store/segments/segment_footer.h"
#include "tests/fuzz/subject.h"

namespace kintsugi::fuzz {
namespace {

using namespace chunkserver;

constexpr uint64_t kSalt = 0xf00dfeed00000001;

Segment segment_of(size_t records, size_t tombstones) {
  Segment segment;
  segment.salt = kSalt;
  for (uint64_t i = 0; i < records; ++i) {
    segment.records.push_back({{{StripeId{81 + i}, 3}, i * 1000, 0x12345678}, segment.end, 70 + i});
    segment.end += segment.records.back().record_bytes();
  }
  segment.tombstones.assign(tombstones, {.id = {StripeId{82}, 1}, .sequence = 9});
  segment.end += tombstones > 0 ? kRecordHeaderBytes : 0;
  segment.last_group = 12;
  return segment;
}

std::vector<std::string> seeds() {
  std::vector<std::string> all;
  for (const auto& [records, tombstones] : {std::pair<size_t, size_t>{1, 0}, {3, 2}, {0, 5}, {200, 300}}) {
    const AlignedMemory footer = encode_footer(segment_of(records, tombstones));
    all.emplace_back(reinterpret_cast<const char*>(footer.data()), footer.size());
  }
  return all;
}

void check_footer(std::span<const std::byte> footer, uint64_t salt) {
  Segment segment;
  segment.salt = salt;
  const Status read = decode_footer(footer, segment);
  if (!read.ok()) {
    require(read.code() == Code::kCorrupt, "what is no footer is corrupt");
    require(segment.records.empty() && segment.tombstones.empty() && segment.end == 0,
            "nothing is taken of it");
    return require_one_line(read.message());
  }
  uint64_t end = 0;
  for (const SegmentRecord& record : segment.records) {
    require(record.offset >= end && record.info.length <= kSmallChunkBytes, "records follow each other");
    end = record.offset + record.record_bytes();
  }
  require(end <= segment.end, "records lie before the footer");
  Segment again;
  again.salt = salt;
  const AlignedMemory encoded = encode_footer(segment);
  require(decode_footer(encoded.span(), again).ok(), "what was read can be written and read again");
  require(again.records.size() == segment.records.size() && again.end == segment.end &&
              again.tombstones.size() == segment.tombstones.size(),
          "a footer is read as it was written");
  Segment other;
  other.salt = salt + 1;
  require(!decode_footer(footer, other).ok(), "the footer of another segment is none");
}

void check(std::string_view input) {
  AlignedMemory footer(std::max<size_t>(input.size(), 4096));
  std::memcpy(footer.data(), input.data(), input.size());
  const std::span block = footer.span().last(4096);
  for (const uint64_t file_bytes : {footer.size(), footer.size() + 8192, size_t{0}}) {
    const auto bytes = footer_bytes(block, kSalt, file_bytes);
    require(!bytes || *bytes <= file_bytes, "a footer lies in its file");
  }
  check_footer(footer.span(), kSalt);
  // The checksum is mended: nearly no mutation would come past it.
  const std::span body = footer.span().first(footer.size() - sizeof(uint32_t));
  const uint32_t crc = crc32c(body);
  std::memcpy(footer.data() + body.size(), &crc, sizeof crc);
  check_footer(footer.span(), kSalt);
}

const Registration registration{{"segment_footer", seeds, check}};

}  // namespace
}  // namespace kintsugi::fuzz
