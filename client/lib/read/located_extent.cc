#include "client/lib/read/located_extent.h"

#include <algorithm>
#include <unordered_map>

#include <fmt/format.h>

#include "common/base/assert.h"
#include "common/base/crc32c.h"

namespace kintsugi::client {

LocatedExtent LocatedExtent::clipped(uint64_t begin, uint64_t end) const {
  const uint64_t from = std::max(begin, offset), to = std::min(end, this->end());
  KINTSUGI_ASSERT(from < to);
  return {from, to - from, stripe, stripe_offset + (from - offset)};
}

Result<std::vector<LocatedExtent>> located_extents(const proto::OpenReadResponse& answer) {
  std::unordered_map<uint64_t, std::shared_ptr<const LocatedStripe>> stripes;
  for (const proto::Stripe& stripe : answer.stripes()) {
    if (stripe.chunks().empty()) {
      auto kept = std::make_shared<const LocatedStripe>(LocatedStripe{stripe, {}});
      if (kept->inline_data().size() != stripe.length() || crc32c(kept->inline_data()) != stripe.inline_crc())
        return Status{
            Code::kCorrupt,
            fmt::format("stripe {}: the metaserver sent other bytes than were written", stripe.stripe_id())};
      stripes[stripe.stripe_id()] = std::move(kept);
      continue;
    }
    KINTSUGI_ASSIGN(const erasure::Policy policy, erasure::Policy::parse(stripe.policy()));
    if (stripe.chunks_size() != static_cast<int>(policy.chunks()))
      return Status{Code::kInternal, fmt::format("stripe {} makes no sense", stripe.stripe_id())};
    stripes[stripe.stripe_id()] = std::make_shared<const LocatedStripe>(LocatedStripe{stripe, policy});
  }
  std::vector<LocatedExtent> extents;
  uint64_t end = 0;
  for (const proto::Extent& extent : answer.extents()) {
    if (extent.stripe_id() == 0) continue;  // a hole that is said
    const auto stripe = stripes.find(extent.stripe_id());
    if (stripe == stripes.end())
      return Status{Code::kInternal, "the metaserver named a stripe but did not say where it is"};
    const uint64_t length = stripe->second->stripe.length();
    if (extent.length() == 0 || extent.file_offset() < end || extent.file_offset() + extent.length() < end ||
        extent.stripe_offset() > length || extent.length() > length - extent.stripe_offset()) {
      return Status{Code::kInternal, fmt::format("the extent at {} makes no sense", extent.file_offset())};
    }
    end = extent.file_offset() + extent.length();
    extents.push_back({extent.file_offset(), extent.length(), stripe->second, extent.stripe_offset()});
  }
  return extents;
}

}  // namespace kintsugi::client
