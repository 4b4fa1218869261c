#include "common/rpc/frame.h"

#include <bit>
#include <cstring>

#include "common/base/crc32c.h"

namespace kintsugi::rpc {
namespace {

static_assert(std::endian::native == std::endian::little, "frames are copied as they lie in memory");

constexpr size_t kCrcOffset = 60;
constexpr uint16_t kKnownFlags = kFlagRequest | kFlagStream | kFlagEnd;

template <class T>
void put(std::byte* at, T value) {
  std::memcpy(at, &value, sizeof value);
}

template <class T>
T get(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

}  // namespace

std::array<std::byte, kFrameHeaderBytes> encode_frame_header(const FrameHeader& header,
                                                             std::span<const std::byte> message) {
  std::array<std::byte, kFrameHeaderBytes> out;
  std::byte* p = out.data();
  put<uint32_t>(p + 0, kMagic);
  put<uint16_t>(p + 4, kVersion);
  put<uint16_t>(p + 6, static_cast<uint16_t>(header.method));
  put<uint16_t>(p + 8, header.flags);
  put<uint16_t>(p + 10, static_cast<uint16_t>(header.status));
  put<uint32_t>(p + 12, static_cast<uint32_t>(message.size()));
  put<uint32_t>(p + 16, header.payload_bytes);
  put<uint32_t>(p + 20, header.timeout_ms);
  put<uint64_t>(p + 24, header.request_id);
  put<uint64_t>(p + 32, header.trace_id);
  put<uint64_t>(p + 40, header.span_id);
  put<uint64_t>(p + 48, header.path);
  put<uint32_t>(p + 56, crc32c(message));
  put<uint32_t>(p + kCrcOffset, crc32c(std::span(out).first<kCrcOffset>()));
  return out;
}

Result<FrameHeader> decode_frame_header(std::span<const std::byte, kFrameHeaderBytes> bytes) {
  const std::byte* p = bytes.data();
  if (get<uint32_t>(p) != kMagic) return Status{Code::kCorrupt, "bad magic: this is not a frame"};
  if (uint16_t version = get<uint16_t>(p + 4); version != kVersion) {
    return Status{Code::kCorrupt, fmt::format("frame version {}, expected {}", version, kVersion)};
  }
  if (crc32c(bytes.first<kCrcOffset>()) != get<uint32_t>(p + kCrcOffset)) {
    return Status{Code::kCorrupt, "frame header checksum mismatch"};
  }
  FrameHeader header;
  header.method = static_cast<Method>(get<uint16_t>(p + 6));
  header.flags = get<uint16_t>(p + 8);
  const uint16_t status = get<uint16_t>(p + 10);
  header.header_bytes = get<uint32_t>(p + 12);
  header.payload_bytes = get<uint32_t>(p + 16);
  header.timeout_ms = get<uint32_t>(p + 20);
  header.request_id = get<uint64_t>(p + 24);
  header.trace_id = get<uint64_t>(p + 32);
  header.span_id = get<uint64_t>(p + 40);
  header.path = get<uint64_t>(p + 48);
  header.message_crc = get<uint32_t>(p + 56);
  if ((header.flags & ~kKnownFlags) != 0) {
    return Status{Code::kCorrupt, fmt::format("unknown frame flags {:#x}", header.flags)};
  }
  if (header.header_bytes > kMaxHeaderBytes) {
    return Status{Code::kLimitExceeded,
                  fmt::format("frame header of {} bytes, limit {}", header.header_bytes, kMaxHeaderBytes)};
  }
  if (header.payload_bytes > kMaxPayloadBytes) {
    return Status{Code::kLimitExceeded,
                  fmt::format("frame payload of {} bytes, limit {}", header.payload_bytes, kMaxPayloadBytes)};
  }
  if (status > static_cast<uint16_t>(kLastCode)) {
    return Status{Code::kCorrupt, fmt::format("unknown status code {}", status)};
  }
  header.status = static_cast<Code>(status);
  return header;
}

Status check_message(const FrameHeader& header, std::span<const std::byte> message) {
  if (crc32c(message) != header.message_crc) return Status{Code::kCorrupt, "frame message checksum mismatch"};
  return {};
}

}  // namespace kintsugi::rpc
