#include "client/lib/read/packed_reads.h"

#include <algorithm>
#include <cstring>

#include "client/lib/read/small_read.h"

namespace kintsugi::client {

bool PackedReads::copy(const LocatedExtent& part, std::span<std::byte> into) {
  const uint64_t stripe = part.stripe->stripe.stripe_id();
  const auto has_it = [&](const Kept& kept) {
    return kept.stripe == stripe && kept.begin <= part.stripe_offset &&
           part.stripe_offset + part.length <= kept.begin + kept.bytes.size();
  };
  const auto found = std::ranges::find_if(kept_, has_it);
  if (found == kept_.end()) return false;
  std::memcpy(into.data(), found->bytes.data() + (part.stripe_offset - found->begin), part.length);
  const auto last = std::ranges::find(last_, stripe, &Last::stripe);
  if (last != last_.end()) last->end = std::max(last->end, part.stripe_offset + part.length);
  return true;
}

LocatedExtent PackedReads::widened(const LocatedExtent& part) {
  const uint64_t stripe = part.stripe->stripe.stripe_id(), end = part.stripe_offset + part.length;
  const auto last = std::ranges::find(last_, stripe, &Last::stripe);
  if (last == last_.end()) {
    last_.push_back({stripe, end});
    if (last_.size() > kMaxStripes) last_.pop_front();
    return part;
  }
  const bool follows = part.stripe_offset >= last->end && part.stripe_offset - last->end <= kGap;
  last->end = end;
  if (!follows) return part;
  LocatedExtent wide = part;
  wide.length = std::min(kMaxSmallRead, part.stripe->stripe.length() - part.stripe_offset);
  return wide;
}

void PackedReads::keep(const LocatedExtent& from, std::vector<std::byte> bytes) {
  kept_.push_back({from.stripe->stripe.stripe_id(), from.stripe_offset, std::move(bytes)});
  if (kept_.size() > kMaxKept) kept_.pop_front();
}

}  // namespace kintsugi::client
