// Names of files in a data folder, where anybody may have put others.
#include "chunkserver/store/disk/chunk_format.h"
#include "chunkserver/store/segments/segment_format.h"
#include "tests/fuzz/subject.h"

namespace kintsugi::fuzz {
namespace {

using namespace chunkserver;

std::vector<std::string> seeds() {
  return {chunk_file_name(ChunkId{StripeId{0x2a}, 3}),
          chunk_file_name(ChunkId{StripeId{UINT64_MAX}, UINT32_MAX}),
          chunk_file_name(ChunkId{}),
          chunk_file_name(ChunkInfo{}),
          chunk_file_name(ChunkInfo{{StripeId{0x2a}, 3}, 1 << 20, 0x89abcdef}),
          chunk_file_name(ChunkInfo{{StripeId{UINT64_MAX}, UINT32_MAX}, kMaxChunkBytes, UINT32_MAX}),
          segment_file_name(7, 0xf00dfeed00000001),
          segment_file_name(UINT64_MAX, UINT64_MAX),
          ""};
}

void check(std::string_view input) {
  const auto chunk = parse_chunk_file_name(input);
  if (chunk) {
    require((chunk->info ? chunk_file_name(*chunk->info) : chunk_file_name(chunk->id)) == input,
            "a chunk's file has one name");
    require(!chunk->info || (chunk->info->id == chunk->id && chunk->info->length <= kMaxChunkBytes),
            "a name says nothing that cannot be");
  } else {
    require(chunk.error().code() == Code::kInvalidArgument, "what is no name is an invalid argument");
  }
  const auto segment = parse_segment_file_name(input);
  if (segment) {
    require(segment_file_name(segment->number, segment->salt) == input, "a segment's file has one name");
  } else {
    require(segment.error().code() == Code::kInvalidArgument, "what is no name is an invalid argument");
  }
  require(!chunk || !segment, "no file is both");
}

const Registration registration{{"file_name", seeds, check}};

}  // namespace
}  // namespace kintsugi::fuzz
