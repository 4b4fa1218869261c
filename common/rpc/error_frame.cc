#include "common/rpc/error_frame.h"

#include <algorithm>

#include "common/proto/types.pb.h"

namespace kintsugi::rpc {
namespace {

constexpr size_t kMaxErrorBytes = 4096;

}  // namespace

std::string encode_error(const Status& status) {
  const std::string& text = status.message();
  size_t size = std::min(text.size(), kMaxErrorBytes);
  // A cut UTF-8 character would not parse.
  while (size > 0 && size < text.size() && (static_cast<unsigned char>(text[size]) & 0xC0) == 0x80)
    --size;
  proto::ErrorDetail detail;
  detail.set_message(text.substr(0, size));
  return detail.SerializeAsString();
}

Status decode_error(Code code, std::span<const std::byte> message) {
  proto::ErrorDetail detail;
  if (!detail.ParseFromArray(message.data(), static_cast<int>(message.size()))) {
    return {code, "(the error's message does not parse)"};
  }
  return {code, detail.message()};
}

uint32_t timeout_ms(TimePoint now, TimePoint deadline) {
  if (deadline == TimePoint::max()) return 0;
  auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - now).count();
  return static_cast<uint32_t>(std::clamp<int64_t>(left, 1, UINT32_MAX));
}

}  // namespace kintsugi::rpc
