#include "metaserver/repair/compactions.h"

namespace kintsugi::metaserver {
namespace {

/// A file that is all small extents is still well off when there are few of them.
bool lies_badly(const Reader& reader, InodeId content, bool crowded, size_t& looked_at) {
  size_t small = 0, seen = 0;
  bool wasteful = false;
  StripeId last{};
  scan_extents(reader, content, 0, [&](const proto::Extent& extent) {
    if (extent.length() < Compactions::kSmallBytes) ++small;
    const StripeId id{extent.stripe_id()};
    if (id != std::exchange(last, id)) {
      const auto stripe = reader.get_message<proto::StoredStripe>(keys::stripe(id));
      wasteful = stripe && (is_wasteful(*stripe) || (crowded && is_inline(*stripe)));
    }
    ++looked_at;
    return !wasteful && small < Compactions::kSmallExtents && ++seen < Compactions::kExtentsOfFile;
  });
  return wasteful || small >= Compactions::kSmallExtents;
}

}  // namespace

bool is_wasteful(const proto::StoredStripe& stripe) {
  // Metadata of before they were counted has no live bytes.
  return stripe.live_bytes() != 0 && stripe.live_bytes() < stripe.length() - stripe.length() / 4;
}

void Compactions::wrote(InodeId inode, size_t small, bool waste) {
  if (small == 0 && !waste) return;
  if (noted_.size() >= kMaxNoted && !noted_.contains(inode)) {
    std::erase_if(noted_, [&](const auto& each) { return !wanted_.contains(each.first); });
    if (noted_.size() >= kMaxNoted) return;
  }
  Note& note = noted_[inode];
  const TimePoint now = clock_.now();
  note.small += waste ? kSmallExtents : small;
  note.last = now;
  if (note.small >= kSmallExtents && wanted_.insert(inode).second) note.first = now;
}

std::vector<InodeId> Compactions::take(const std::function<bool(InodeId)>& mine, size_t at_most) {
  std::vector<InodeId> taken;
  const TimePoint now = clock_.now();
  auto next = wanted_.upper_bound(next_);
  const size_t looks = std::min(kLookedAt, wanted_.size());
  for (size_t i = 0; i < looks && taken.size() < at_most && !wanted_.empty(); ++i) {
    if (next == wanted_.end()) next = wanted_.begin();
    const InodeId inode = next_ = *next;
    const auto note = noted_.find(inode);
    const bool quiet = now - note->second.last >= kQuiet || now - note->second.first >= kLongest;
    if (quiet && mine(inode)) {
      taken.push_back(inode);
      noted_.erase(note);
      next = wanted_.erase(next);
    } else {
      ++next;
    }
  }
  return taken;
}

bool Compactions::scan_step(const Reader& reader, bool crowded) {
  size_t inodes = 0, extents = 0;
  bool more = false;
  keys::Range range = keys::all(keys::Kind::kInode);
  if (scanned_) range.begin = keys::inode(InodeId{scanned_.value + 1});
  reader.scan(range, [&](std::string_view key, std::string_view value) {
    scanned_ = InodeId{keys::first_id(key)};
    const auto inode = Reader::parse<proto::StoredInode>(value);
    if (inode.type() == proto::Attributes::FILE &&
        lies_badly(reader, content_of(scanned_, inode), crowded, extents))
      wrote(scanned_, kSmallExtents, false);
    more = ++inodes >= kInodesOfStep || extents >= kExtentsOfStep;
    return !more;
  });
  if (!more) scanned_ = InodeId{};
  return more;
}

}  // namespace kintsugi::metaserver
