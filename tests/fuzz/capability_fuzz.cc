// Capabilities: 44 bytes that a client got from the metaserver and shows to a chunkserver.
#include "common/rpc/secret.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/subject.h"

namespace kintsugi::fuzz {
namespace {

using rpc::check_capability;

/// The right that was granted, the one that is asked for, a change to the capability on its way, and invented bytes.
struct Case {
  uint64_t stripe = 7, other_stripe = 8;
  uint32_t index = 3, operations = rpc::kOpRead | rpc::kOpRepair, operation = rpc::kOpRead;
  uint32_t changed_at = 0;
  int64_t expiry_ns = 2'000'000'000, now_ns = 1'000'000'000;
  uint8_t change = 0;
};

std::string bytes_of(const Case& from, std::string_view forged = {}) {
  std::string bytes(reinterpret_cast<const char*>(&from), sizeof from);
  return bytes.append(forged);
}

std::vector<std::string> seeds() {
  return {bytes_of({}),
          bytes_of({.operation = rpc::kOpWrite}),
          bytes_of({.now_ns = 2'000'000'000}),
          bytes_of({.operation = 0}),
          bytes_of({.changed_at = 20, .change = 1}),
          bytes_of({}, std::string(44, '\0')),
          bytes_of({.expiry_ns = -1})};
}

uint64_t seconds_of(int64_t ns) {
  return ns < 0 ? 0 : static_cast<uint64_t>(ns / 1'000'000'000);
}

void check(std::string_view input) {
  Input in(input);
  const auto given = in.number<Case>();
  const std::string_view forged = in.rest();
  const rpc::Secret secret, other_secret{{std::byte{1}}};
  const ChunkId chunk{StripeId{given.stripe}, given.index};
  const WallTime expiry{std::chrono::nanoseconds{given.expiry_ns}},
      now{std::chrono::nanoseconds{given.now_ns}};
  const uint32_t operation = given.operation;
  const auto accepted = [&](std::string_view capability, ChunkId of, const rpc::Secret& by) {
    const Status status = check_capability(by, capability, of, operation, now);
    if (!status.ok()) {
      require(status.code() == Code::kPermissionDenied, "a capability that is no good is denied");
      require_one_line(status.message());
    }
    return status.ok();
  };

  const std::string capability = rpc::make_capability(secret, chunk, given.operations, expiry);
  const bool allowed = operation != 0 && (given.operations & operation) == operation;
  const bool good = allowed && seconds_of(given.now_ns) < seconds_of(given.expiry_ns);
  require(accepted(capability, chunk, secret) == good,
          "what was granted, and only that, is allowed until it expires");
  require(!accepted(capability, chunk, other_secret), "a capability of another cluster is denied");
  const ChunkId other{StripeId{given.other_stripe}, given.index};
  require(other == chunk || !accepted(capability, other, secret), "a capability of another stripe is denied");
  require(!accepted(capability, {chunk.stripe, chunk.index + 1}, secret),
          "a capability of another chunk is denied");

  std::string changed = capability;
  changed[given.changed_at % changed.size()] ^= static_cast<char>(given.change);
  require(given.change == 0 || !accepted(changed, chunk, secret), "a changed capability is denied");
  require(!accepted(capability + '\0', chunk, secret), "a longer capability is denied");
  require(
      !accepted(std::string_view(capability).substr(0, given.changed_at % capability.size()), chunk, secret),
      "a shorter capability is denied");
  require(forged == capability || !accepted(forged, chunk, secret), "a forged capability is denied");
}

const Registration registration{{"capability", seeds, check}};

}  // namespace
}  // namespace kintsugi::fuzz
