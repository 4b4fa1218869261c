#include "common/rpc/error_frame.h"

#include <algorithm>

namespace kintsugi::rpc {
namespace {

constexpr size_t kMaxErrorBytes = 4096;

/// The length of the UTF-8 character that `text` begins with; 0 when it begins with none.
size_t character_bytes(std::string_view text) {
  const auto within = [text](size_t at, unsigned least, unsigned most) {
    if (at >= text.size()) return false;
    const auto byte = static_cast<unsigned char>(text[at]);
    return least <= byte && byte <= most;
  };
  if (within(0, 0, 0x7f)) return 1;
  if (within(0, 0xc2, 0xdf)) return within(1, 0x80, 0xbf) ? 2 : 0;
  // The second byte rules out what has a shorter form, surrogates, and what is beyond Unicode.
  if (within(0, 0xe0, 0xef)) {
    const bool second = within(1, within(0, 0xe0, 0xe0) ? 0xa0 : 0x80, within(0, 0xed, 0xed) ? 0x9f : 0xbf);
    return second && within(2, 0x80, 0xbf) ? 3 : 0;
  }
  if (within(0, 0xf0, 0xf4)) {
    const bool second = within(1, within(0, 0xf0, 0xf0) ? 0x90 : 0x80, within(0, 0xf4, 0xf4) ? 0x8f : 0xbf);
    return second && within(2, 0x80, 0xbf) && within(3, 0x80, 0xbf) ? 4 : 0;
  }
  return 0;
}

/// The text as a protobuf string may hold it: the receiver would refuse the whole message, and the culprit with it, for
/// the sake of one byte that is not UTF-8.
std::string short_utf8(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const size_t bytes = character_bytes(text);
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
