/// The frame of every RPC: a fixed little-endian header, a protobuf header, a raw payload.
///
/// ```
/// offset size
///      0    4  magic "KTSG"
///      4    2  version
///      6    2  method
///      8    2  flags
///     10    2  status code    (responses)
///     12    4  header bytes   (<= kMaxHeaderBytes)
///     16    4  payload bytes  (<= kMaxPayloadBytes)
///     20    4  timeout in ms  (requests; 0 = none)
///     24    8  request id
///     32    8  trace id
///     40    8  span id
///     48    8  calling context path
///     56    4  CRC32C of the protobuf header
///     60    4  CRC32C of the bytes 0..59
/// ```
///
/// The fixed header has a checksum of its own, so that no byte is waited for because of a length that was damaged.
/// Payload bytes carry their own checksums inside the protobuf header (block CRCs, slice CRC).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "common/base/status.h"
#include "common/rpc/method.h"

namespace kintsugi::rpc {

inline constexpr uint32_t kMagic = 0x4753544B;
inline constexpr uint16_t kVersion = 2;
inline constexpr size_t kFrameHeaderBytes = 64;
inline constexpr size_t kMaxHeaderBytes = 1 << 20;
inline constexpr size_t kMaxPayloadBytes = 8 << 20;

enum FrameFlags : uint16_t {
  kFlagRequest = 1,  ///< first frame of a call
  kFlagStream = 2,   ///< the call owns the connection until both sides sent kFlagEnd
  kFlagEnd = 4,      ///< last frame of this side
};

struct FrameHeader {
  Method method{};
  uint16_t flags = 0;
  uint32_t header_bytes = 0;
  uint32_t payload_bytes = 0;
  uint32_t timeout_ms = 0;
  uint64_t request_id = 0;
  uint64_t trace_id = 0;
  uint64_t span_id = 0;
  uint64_t path = 0;
  Code status = Code::kOk;   ///< not ok: the protobuf header is a proto::ErrorDetail
  uint32_t message_crc = 0;  ///< CRC32C of the protobuf header as it was read; `encode` computes it
};

/// Writes the fixed header for a frame whose protobuf header is `message`.
std::array<std::byte, kFrameHeaderBytes> encode_frame_header(const FrameHeader& header,
                                                             std::span<const std::byte> message);

/// Checks magic, version, checksum and limits of the fixed header: kCorrupt or kLimitExceeded.
Result<FrameHeader> decode_frame_header(std::span<const std::byte, kFrameHeaderBytes> bytes);
/// kCorrupt: these are not the bytes of the protobuf header that `header` was sent with.
Status check_message(const FrameHeader& header, std::span<const std::byte> message);

}  // namespace kintsugi::rpc
