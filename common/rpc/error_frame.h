/// A Status and a deadline in the form in which they travel in a frame.
#pragma once

#include <span>

#include "common/base/status.h"
#include "common/proto/types.pb.h"
#include "common/runtime/clock.h"

namespace kintsugi::rpc {

/// The protobuf header of an error frame. Its text is cut at 4,096 bytes, and what is no UTF-8 becomes question
/// marks, since messages may quote what a peer sent; the culprit always arrives.
proto::ErrorDetail encode_error(const Status& status);
Status decode_error(Code code, std::span<const std::byte> message);

/// The value of FrameHeader::timeout_ms: at least 1, or 0 for no deadline.
uint32_t timeout_ms(TimePoint now, TimePoint deadline);

}  // namespace kintsugi::rpc
