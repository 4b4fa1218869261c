#include <cstring>

#include "common/rpc/secret.h"

namespace kintsugi::rpc {
namespace {

constexpr std::string_view kPurpose = "capability";
constexpr size_t kOperationsOffset = 0;
constexpr size_t kExpiryOffset = 4;
constexpr size_t kMacOffset = 12;
constexpr size_t kCapabilityBytes = kMacOffset + sizeof(Mac);

std::array<std::byte, 24> message_of(ChunkId chunk, uint32_t operations, uint64_t expiry_seconds) {
  std::array<std::byte, 24> message;
  std::memcpy(message.data(), &chunk.stripe.value, 8);
  std::memcpy(message.data() + 8, &chunk.index, 4);
  std::memcpy(message.data() + 12, &operations, 4);
  std::memcpy(message.data() + 16, &expiry_seconds, 8);
  return message;
}

uint64_t whole_seconds(WallTime time) {
  auto seconds = std::chrono::floor<std::chrono::seconds>(time.time_since_epoch()).count();
  return seconds < 0 ? 0 : static_cast<uint64_t>(seconds);
}

}  // namespace

std::string make_capability(const Secret& secret, ChunkId chunk, uint32_t operations, WallTime expiry) {
  uint64_t expiry_seconds = whole_seconds(expiry);
  const Mac mac = secret.mac(kPurpose, message_of(chunk, operations, expiry_seconds));
  std::string out(kCapabilityBytes, '\0');
  std::memcpy(out.data() + kOperationsOffset, &operations, sizeof operations);
  std::memcpy(out.data() + kExpiryOffset, &expiry_seconds, sizeof expiry_seconds);
  std::memcpy(out.data() + kMacOffset, mac.data(), mac.size());
  return out;
}

Status check_capability(const Secret& secret, std::string_view capability, ChunkId chunk, uint32_t operation,
                        WallTime now) {
  auto denied = [chunk](std::string_view why) {
    return Status{Code::kPermissionDenied, fmt::format("capability for chunk {} {}", chunk, why)};
  };
  if (capability.size() != kCapabilityBytes) return denied("is missing or malformed");
  uint32_t operations;
  uint64_t expiry_seconds;
  std::memcpy(&operations, capability.data() + kOperationsOffset, sizeof operations);
  std::memcpy(&expiry_seconds, capability.data() + kExpiryOffset, sizeof expiry_seconds);
  const auto mac = std::as_bytes(std::span(capability)).subspan(kMacOffset);
  if (!secret.accepts(kPurpose, message_of(chunk, operations, expiry_seconds), mac)) {
    return denied("is forged or belongs to another chunk");
  }
  if (operation == 0 || (operations & operation) != operation) return denied("does not allow this operation");
  if (whole_seconds(now) >= expiry_seconds) return denied("has expired");
  return {};
}

}  // namespace kintsugi::rpc
