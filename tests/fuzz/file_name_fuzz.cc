// Names of files in a data folder, where anybody may have put others.
#include "chunkserver/store/disk/chunk_format.h"
#include "chunkserver/store/segments/segment_format.h"
#include "tests/fuzz/subject.h"

namespace kintsugi::fuzz {
namespace {

using namespace chunkserver;

std::vector<std::string> seeds() {
  return {chunk_file_name({StripeId{0x2a}, 3}),
          chunk_file_name({StripeId{UINT64_MAX}, UINT32_MAX}),
          chunk_file_name({}),
          segment_file_name(7, 0xf00dfeed00000001),
          segment_file_name(UINT64_MAX, UINT64_MAX),
          ""};
}

void check(std::string_view input) {
  const auto chunk = parse_chunk_file_name(input);
  if (chunk) {
    require(chunk_file_name(*chunk) == input, "a chunk's file has one name");
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
