#include "common/rpc/error_frame.h"

#include <algorithm>

namespace kintsugi::rpc {
namespace {

constexpr size_t kMaxErrorBytes = 4096;

}  // namespace

proto::ErrorDetail encode_error(const Status& status) {
  const std::string& text = status.message();
  size_t size = std::min(text.size(), kMaxErrorBytes);
  // A cut UTF-8 character would not parse.
  while (size > 0 && size < text.size() && (static_cast<unsigned char>(text[size]) & 0xC0) == 0x80)
    --size;
  proto::ErrorDetail detail;
  detail.set_message(text.substr(0, size));
  const Culprit& culprit = status.culprit();
  detail.set_culprit_server(culprit.server.value);
  detail.set_culprit_stripe(culprit.chunk.stripe.value);
  detail.set_culprit_index(culprit.chunk.index);
  return detail;
}

Status decode_error(Code code, std::span<const std::byte> message) {
  proto::ErrorDetail detail;
  if (!detail.ParseFromArray(message.data(), static_cast<int>(message.size()))) {
    return {code, "(the error's message does not parse)"};
  }
  const ChunkId chunk{StripeId{detail.culprit_stripe()}, detail.culprit_index()};
  return Status{code, detail.message()}.blame({ServerId{detail.culprit_server()}, chunk});
}

uint32_t timeout_ms(TimePoint now, TimePoint deadline) {
  if (deadline == TimePoint::max()) return 0;
  auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - now).count();
  return static_cast<uint32_t>(std::clamp<int64_t>(left, 1, UINT32_MAX));
}

}  // namespace kintsugi::rpc
