#include "chunkserver/store/disk/chunk_format.h"

#include <charconv>

#include "chunkserver/store/disk/bytes.h"

namespace kintsugi::chunkserver {
namespace {

constexpr uint32_t kMagic = 0x4B48434B;  // "KCHK"
constexpr uint16_t kVersion = 1;

Status corrupt(std::string why) {
  return {Code::kCorrupt, "chunk header: " + std::move(why)};
}

}  // namespace

void encode_chunk_header(const ChunkHeader& header, std::span<std::byte> out) {
  ByteWriter writer(out.first(kChunkHeaderBytes - sizeof(uint32_t)));
  writer.put(kMagic);
  writer.put(kVersion);
  writer.put(header.info.id.stripe.value);
  writer.put(header.info.id.index);
  writer.put(header.info.length);
  writer.put(header.info.crc);
  writer.put_text(header.policy);
  uint32_t crc = crc32c(out.first(kChunkHeaderBytes - sizeof crc));
  std::memcpy(out.data() + kChunkHeaderBytes - sizeof crc, &crc, sizeof crc);
}

Result<ChunkHeader> decode_chunk_header(std::span<const std::byte> bytes) {
  if (bytes.size() < kChunkHeaderBytes) return corrupt("too short");
  uint32_t crc;
  std::memcpy(&crc, bytes.data() + kChunkHeaderBytes - sizeof crc, sizeof crc);
  ByteReader reader(bytes.first(kChunkHeaderBytes - sizeof crc));
  if (reader.get<uint32_t>() != kMagic) return corrupt("not a chunk");
  if (crc32c(bytes.first(kChunkHeaderBytes - sizeof crc)) != crc) return corrupt("checksum mismatch");
  if (uint16_t version = reader.get<uint16_t>(); version != kVersion) {
    return corrupt(fmt::format("version {} is unknown", version));
  }
  ChunkHeader header;
  header.info.id.stripe = StripeId(reader.get<uint64_t>());
  header.info.id.index = reader.get<uint32_t>();
  header.info.length = reader.get<uint64_t>();
  header.info.crc = reader.get<uint32_t>();
  header.policy = reader.get_text();
  if (!reader.ok() || header.info.length > kMaxChunkBytes) return corrupt("impossible length");
  return header;
}

Result<std::vector<uint32_t>> decode_chunk_table(const ChunkInfo& info, std::span<const std::byte> bytes) {
  std::vector<uint32_t> crcs(blocks_of(info.length));
  if (bytes.size() < crcs.size() * sizeof(uint32_t))
    return Status{Code::kCorrupt, "checksum table is cut off"};
  if (!crcs.empty()) std::memcpy(crcs.data(), bytes.data(), crcs.size() * sizeof(uint32_t));
  if (crc32c_of_blocks(crcs, info.length) != info.crc) {
    return Status{Code::kCorrupt, "checksum table does not match the chunk's checksum"};
  }
  return crcs;
}

std::string chunk_file_name(ChunkId id) {
  return fmt::format("{:016x}-{}", id.stripe.value, id.index);
}

std::string chunk_file_name(const ChunkInfo& info) {
  return fmt::format("{}-{}-{:08x}", chunk_file_name(info.id), info.length, info.crc);
}

Result<ChunkFileName> parse_chunk_file_name(std::string_view name) {
  ChunkInfo info;
  std::string_view rest = name;
  // Takes one number, behind which comes the end or another number.
  const auto take = [&rest](auto& number, int base) {
    const auto parsed = std::from_chars(rest.data(), rest.data() + rest.size(), number, base);
    rest.remove_prefix(static_cast<size_t>(parsed.ptr - rest.data()));
    const bool goes_on = rest.starts_with('-');
    if (goes_on) rest.remove_prefix(1);
    return parsed.ec == std::errc() && (goes_on || rest.empty());
  };
  const bool has_id = take(info.id.stripe.value, 16) && take(info.id.index, 10);
  if (has_id && chunk_file_name(info.id) == name) return ChunkFileName{info.id, std::nullopt};
  const bool has_all = has_id && take(info.length, 10) && take(info.crc, 16);
  if (has_all && info.length <= kMaxChunkBytes && chunk_file_name(info) == name)
    return ChunkFileName{info.id, info};
  return Status{Code::kInvalidArgument, "not the name of a chunk file"};
}

Status check_blocks(std::span<const std::byte> data, std::span<const uint32_t> crcs, uint64_t first_block) {
  if (crcs.size() != blocks_of(data.size())) {
    return {Code::kInvalidArgument,
            fmt::format("{} checksums for {} blocks", crcs.size(), blocks_of(data.size()))};
  }
  for (size_t block = 0; block < crcs.size(); ++block) {
    size_t begin = block * kBlockBytes;
    if (crc32c(data.subspan(begin, std::min(kBlockBytes, data.size() - begin))) != crcs[block]) {
      return {Code::kCorrupt, fmt::format("block {}: checksum mismatch", first_block + block)};
    }
  }
  return {};
}

}  // namespace kintsugi::chunkserver
