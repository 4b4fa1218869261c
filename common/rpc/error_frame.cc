#include "common/rpc/error_frame.h"

#include <algorithm>

#include "common/base/utf8.h"

namespace kintsugi::rpc {
namespace {

constexpr size_t kMaxErrorBytes = 4096;

/// The text as a protobuf string may hold it: the receiver would refuse the whole message, and the culprit with it, for
/// the sake of one byte that is not UTF-8.
std::string short_utf8(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const size_t bytes = utf8_character_bytes(text);
    if (out.size() + std::max<size_t>(bytes, 1) > kMaxErrorBytes) break;
    if (bytes == 0) {
      out += '?';
    } else {
      out += text.substr(0, bytes);
    }
    text.remove_prefix(std::max<size_t>(bytes, 1));
  }
  return out;
}

}  // namespace

proto::ErrorDetail encode_error(const Status& status) {
  proto::ErrorDetail detail;
  detail.set_message(short_utf8(status.message()));
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
