// RPC frames: the first bytes that anybody who connects can send.
#include "common/base/crc32c.h"
#include "common/rpc/frame.h"
#include "tests/fuzz/subject.h"

namespace kintsugi::fuzz {
namespace {

using namespace rpc;

constexpr size_t kMessageBytesOffset = 12;  // of the fields in a header
constexpr size_t kChecksumOffset = 60;

using Fixed = std::array<std::byte, kFrameHeaderBytes>;

std::string frame(const FrameHeader& header, std::string_view message) {
  const Fixed fixed = encode_frame_header(header, std::as_bytes(std::span(message)));
  return std::string(reinterpret_cast<const char*>(fixed.data()), fixed.size()).append(message);
}

std::vector<std::string> seeds() {
  return {
      frame({.method = Method::kPing, .flags = kFlagRequest, .timeout_ms = 1000, .request_id = 1}, "hello"),
      frame(
          {.method = Method::kReadChunk, .flags = kFlagRequest | kFlagStream, .request_id = 2, .trace_id = 3},
          ""),
      frame({.flags = kFlagStream, .payload_bytes = kMaxPayloadBytes, .request_id = 2, .path = 0xffff},
            "data"),
      frame({.flags = kFlagEnd, .request_id = 2, .span_id = 9, .status = Code::kInternal}, "no such chunk"),
  };
}

void check_refused(const Status& status) {
  require(status.code() == Code::kCorrupt || status.code() == Code::kLimitExceeded,
          "a bad frame is corrupt or too large");
  require_one_line(status.message());
}

Status read(const Fixed& fixed, std::span<const std::byte> message) {
  const auto header = decode_frame_header(fixed);
  if (!header) return header.error();
  return check_message(*header, message);
}

void check_frame(Fixed fixed, std::span<const std::byte> message, size_t flipped) {
  const Status status = read(fixed, message);
  if (!status.ok()) return check_refused(status);
  const auto header = decode_frame_header(fixed);
  require(header->header_bytes <= kMaxHeaderBytes && header->payload_bytes <= kMaxPayloadBytes,
          "frames have limits");
  if (header->header_bytes == message.size()) {
    require(encode_frame_header(*header, message) == fixed, "a frame is written as it was read");
  }
  if (flipped / 8 < fixed.size()) {
    fixed[flipped / 8] ^= std::byte{1} << flipped % 8;
    const Status damaged = read(fixed, message);
    require(!damaged.ok(), "a header with a flipped bit is refused");
    check_refused(damaged);
  } else {
    std::vector<std::byte> changed(message.begin(), message.end());
    changed[flipped / 8 - fixed.size()] ^= std::byte{1} << flipped % 8;
    require(read(fixed, changed).code() == Code::kCorrupt, "a message with a flipped bit is refused");
  }
}

void check(std::string_view input) {
  Fixed fixed{};
  const size_t given = std::min(input.size(), fixed.size());
  std::memcpy(fixed.data(), input.data(), given);
  const auto message = std::as_bytes(std::span(input)).subspan(given);
  const size_t flipped = static_cast<uint8_t>(fixed[60]) * 8191u % ((fixed.size() + message.size()) * 8);
  check_frame(fixed, message, flipped);
  // Length and checksum are mended: nearly no mutation would come past them.
  const auto bytes = static_cast<uint32_t>(message.size());
  std::memcpy(fixed.data() + kMessageBytesOffset, &bytes, sizeof bytes);
  const uint32_t crc = crc32c(std::span(fixed).first<kChecksumOffset>());
  std::memcpy(fixed.data() + kChecksumOffset, &crc, sizeof crc);
  const auto header = decode_frame_header(fixed);
  if (!header) return check_refused(header.error());
  const Fixed mended = encode_frame_header(*header, message);
  require(read(mended, message).ok(), "what was written is read");
  check_frame(mended, message, flipped);
}

const Registration registration{{"frame", seeds, check}};

}  // namespace
}  // namespace kintsugi::fuzz
