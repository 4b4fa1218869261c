// Headers and checksum tables of chunk files: what a disk gives back may be anything.
#include "chunkserver/store/disk/chunk_format.h"
#include "tests/fuzz/subject.h"

namespace kintsugi::fuzz {
namespace {

using namespace chunkserver;

constexpr size_t kCrcOffset = kChunkHeaderBytes - sizeof(uint32_t);

using Header = std::array<std::byte, kChunkHeaderBytes>;

Header encode(const ChunkHeader& header) {
  Header bytes{};
  encode_chunk_header(header, bytes);
  return bytes;
}

// The fields of a header come first in an input and the table last; the zeros between them are left out.
constexpr size_t kFieldBytes = 128;

std::vector<std::string> seeds() {
  std::vector<std::string> all;
  for (uint64_t length : {uint64_t{0}, uint64_t{1}, uint64_t{65536}, uint64_t{300'000}, kMaxChunkBytes}) {
    const std::vector<uint32_t> crcs(std::min<uint64_t>(blocks_of(length), 64), 0xabcdef01);
    ChunkHeader header{.info = {.id = {StripeId{81}, 3}, .length = length}, .policy = "rs-6-3-1024k"};
    if (crcs.size() == blocks_of(length)) header.info.crc = crc32c_of_blocks(crcs, length);
    all.emplace_back(reinterpret_cast<const char*>(encode(header).data()), kFieldBytes);
    all.back().append(reinterpret_cast<const char*>(crcs.data()), crcs.size() * sizeof(uint32_t));
  }
  return all;
}

void check_refused(const Status& status) {
  require(status.code() == Code::kCorrupt, "what is no header is corrupt");
  require_one_line(status.message());
}

void check_table(const ChunkInfo& info, std::span<const std::byte> table) {
  const auto crcs = decode_chunk_table(info, table);
  if (!crcs) return check_refused(crcs.error());
  require(crcs->size() == blocks_of(info.length), "each block has its checksum");
  require(crc32c_of_blocks(*crcs, info.length) == info.crc, "a table proves itself");
  if (crcs->empty()) return;
  ChunkInfo other = info;
  other.crc ^= 1;
  require(!decode_chunk_table(other, table), "a table of another chunk is corrupt");
  require(!decode_chunk_table(info, table.first(crcs->size() * sizeof(uint32_t) - 1)),
          "a table that is cut off is corrupt");
}

void check_header(Header bytes, std::span<const std::byte> table, size_t flipped) {
  const auto header = decode_chunk_header(bytes);
  if (!header) return check_refused(header.error());
  require(header->info.length <= kMaxChunkBytes, "a chunk's length has a limit");
  const auto again = decode_chunk_header(encode(*header));
  require(again && again->info == header->info && again->policy == header->policy,
          "what was read can be written and read again");
  require(!decode_chunk_header(std::span(bytes).first(bytes.size() - 1)),
          "a header that is cut off is corrupt");
  check_table(header->info, table);
  bytes[flipped / 8] ^= std::byte{1} << flipped % 8;
  const auto damaged = decode_chunk_header(bytes);
  require(!damaged, "a header with a flipped bit is corrupt");
  check_refused(damaged.error());
}

void check(std::string_view input) {
  Header header{};
  const size_t fields = std::min(input.size(), kFieldBytes);
  std::memcpy(header.data(), input.data(), fields);
  const auto table = std::as_bytes(std::span(input)).subspan(fields);
  const uint32_t crc = crc32c(std::span(header).first(kCrcOffset));
  const size_t flipped = crc % (header.size() * 8);
  check_header(header, table, flipped);
  // The checksum is mended: nearly no mutation would come past it.
  std::memcpy(header.data() + kCrcOffset, &crc, sizeof crc);
  check_header(header, table, flipped);
  const auto decoded = decode_chunk_header(header);
  if (!decoded) return;
  // And that of the table.
  ChunkInfo info = decoded->info;
  if (table.size() < blocks_of(info.length) * sizeof(uint32_t)) return;
  std::vector<uint32_t> crcs(blocks_of(info.length));
  if (!crcs.empty()) std::memcpy(crcs.data(), table.data(), crcs.size() * sizeof(uint32_t));
  info.crc = crc32c_of_blocks(crcs, info.length);
  require(decode_chunk_table(info, table).has_value(), "a table that proves itself is read");
  check_table(info, table);
}

const Registration registration{{"chunk_header", seeds, check}};

}  // namespace
}  // namespace kintsugi::fuzz
