// Chunk files and segments have the same bytes as those that the previous release writes (scripts/previous_release): the
// texts below are of its programs.
#include <algorithm>

#include <gtest/gtest.h>

#include "chunkserver/store/disk/chunk_format.h"
#include "chunkserver/store/segments/segment_format.h"

namespace kintsugi::chunkserver {
namespace {

using Header = std::array<std::byte, kChunkHeaderBytes>;
static_assert(kRecordHeaderBytes == kChunkHeaderBytes);

/// The header's bytes up to the last one that is not zero, and the CRC at its end.
std::string text_of(const Header& header) {
  const auto last = std::find_if(header.rbegin() + sizeof(uint32_t), header.rend(),
                                 [](std::byte byte) { return byte != std::byte{}; });
  std::string text;
  for (auto byte = header.begin(); byte != last.base(); ++byte)
    text += fmt::format("{:02x}", static_cast<unsigned>(*byte));
  text += ' ';
  for (auto byte = header.end() - sizeof(uint32_t); byte != header.end(); ++byte)
    text += fmt::format("{:02x}", static_cast<unsigned>(*byte));
  return text;
}

constexpr ChunkInfo kInfo{.id = {StripeId{0x0102030405060708}, 9}, .length = 0x0a0b0c, .crc = 0x89abcdef};
constexpr uint64_t kSalt = 0xf00dfeed00000001;

TEST(StoredBytes, AChunkFile) {
  Header header{};
  encode_chunk_header({kInfo, "rs-6-3-1024k"}, header);
  EXPECT_EQ(
      text_of(header),
      "4b43484b01000807060504030201090000000c0b0a0000000000efcdab890c72732d362d332d313032346b 0785e1ab");
  EXPECT_EQ(chunk_file_name(kInfo), "0102030405060708-9-658188-89abcdef");
}

TEST(StoredBytes, ARecordOfAChunkInASegment) {
  Header header{};
  RecordHeader record{
      .salt = kSalt, .offset = 0x3000, .group = 5, .sequence = 77, .info = kInfo, .policy = "rs-2-1-64k"};
  record.info.length = 70'000;
  record.block_crcs = {0x11223344, 0x55667788};
  encode_record_header(record, header);
  EXPECT_EQ(text_of(header),
            "4b5345430100010001000000edfe0df0003000000000000005000000000000004d000000000000000807060504030201"
            "090000007011010000000000efcdab890a72732d322d312d36346b4433221188776655 "
            "0b35ed03");
  EXPECT_EQ(segment_file_name(7, kSalt), "0000000000000007-f00dfeed00000001.seg");
}

TEST(StoredBytes, ARecordOfChunksThatWereRemoved) {
  Header header{};
  RecordHeader record{.salt = kSalt, .offset = 0x5000, .group = 6, .sequence = 78};
  record.tombstones = {{kInfo.id, 77}, {{StripeId{3}, 1}, 70}};
  encode_record_header(record, header);
  EXPECT_EQ(text_of(header),
            "4b5345430100020001000000edfe0df0005000000000000006000000000000004e000000000000000200000008070605"
            "04030201090000004d0000000000000003000000000000000100000046 "
            "a351ee7b");
}

}  // namespace
}  // namespace kintsugi::chunkserver
