/// A range of a file and where it is stored.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/base/status.h"
#include "common/proto/meta.pb.h"
#include "erasure/policy.h"

namespace kintsugi::client {

/// A stripe with the addresses and capabilities that reading takes.
struct LocatedStripe {
  proto::Stripe stripe;
  erasure::Policy policy;  ///< any policy, if the stripe is inline

  /// It has no chunks: the metaserver keeps its bytes, and `stripe` has them, checked; or they were written here a
  /// moment ago (then it has no number either).
  bool is_inline() const { return stripe.chunks().empty(); }
  std::span<const std::byte> inline_data() const { return std::as_bytes(std::span(stripe.inline_data())); }
};

struct LocatedExtent {
  uint64_t offset = 0;  ///< offset in the file
  uint64_t length = 0;
  std::shared_ptr<const LocatedStripe> stripe;
  uint64_t stripe_offset = 0;

  uint64_t end() const { return offset + length; }
  /// The part that lies within [begin, end). REQUIRES: there is one.
  LocatedExtent clipped(uint64_t begin, uint64_t end) const;
};

/// The extents of an answer, in file order. kInternal when it makes no sense: an extent beyond its stripe, out of
/// order, or of a stripe that the answer does not have. kCorrupt: bytes that came along are others than were written.
Result<std::vector<LocatedExtent>> located_extents(const proto::OpenReadResponse& answer);

}  // namespace kintsugi::client
