#include "metaserver/schema/extents.h"

#include <algorithm>

#include "common/base/math.h"

namespace kintsugi::metaserver {
namespace {

constexpr size_t kWorthTelling = 64;

proto::Extent extent_of(std::string_view key, std::string_view value) {
  const auto stored = Reader::parse<proto::StoredExtent>(value);
  proto::Extent extent;
  extent.set_file_offset(keys::end_of_extent(key) - stored.length());
  extent.set_length(stored.length());
  extent.set_stripe_id(stored.stripe_id());
  extent.set_stripe_offset(stored.stripe_offset());
  return extent;
}

uint64_t end_of(const proto::Extent& extent) {
  return extent.file_offset() + extent.length();
}

/// The part of an extent that lies within [begin, end).
proto::Extent part_of(const proto::Extent& extent, uint64_t begin, uint64_t end) {
  proto::Extent part = extent;
  begin = std::max(begin, extent.file_offset());
  end = std::min(end, end_of(extent));
  part.set_stripe_offset(extent.stripe_offset() + (begin - extent.file_offset()));
  part.set_file_offset(begin);
  part.set_length(end - begin);
  return part;
}

/// The keys of the extents that end after `from`, and not after `stored_end`.
keys::Range extents_between(InodeId content, uint64_t from, uint64_t stored_end) {
  keys::Range range = keys::extents_after(content, from);
  if (stored_end < UINT64_MAX) range.end = keys::extent(content, stored_end + 1);
  return range;
}

}  // namespace

void scan_extents(const Reader& reader, InodeId content, uint64_t from,
                  const std::function<bool(const proto::Extent&)>& visit, uint64_t stored_end) {
  if (from >= stored_end) return;
  reader.scan(extents_between(content, from, stored_end),
              [&](std::string_view key, std::string_view value) { return visit(extent_of(key, value)); });
}

std::vector<std::pair<uint64_t, uint64_t>> runs_of(
    const google::protobuf::RepeatedPtrField<proto::Extent>& extents) {
  std::vector<std::pair<uint64_t, uint64_t>> runs;
  for (const proto::Extent& extent : extents) {
    if (runs.empty() || runs.back().second != extent.file_offset())
      runs.emplace_back(extent.file_offset(), end_of(extent));
    else
      runs.back().second = end_of(extent);
  }
  return runs;
}

bool has_exactly(const Reader& reader, InodeId content,
                 const google::protobuf::RepeatedPtrField<proto::Extent>& expected) {
  const uint64_t begin = expected.begin()->file_offset(), end = end_of(*expected.rbegin());
  auto next = expected.begin();
  bool same = true;
  scan_extents(reader, content, begin, [&](const proto::Extent& extent) {
    if (extent.file_offset() >= end) return false;
    const proto::Extent part = part_of(extent, begin, end);
    same = next != expected.end() && part.file_offset() == next->file_offset() &&
           part.length() == next->length() && part.stripe_id() == next->stripe_id() &&
           part.stripe_offset() == next->stripe_offset();
    if (same) ++next;
    return same;
  });
  return same && next == expected.end();
}

size_t count_extents(const Reader& reader, InodeId content, size_t at_most) {
  size_t count = 0;
  reader.scan(keys::extents_after(content, 0),
              [&](std::string_view, std::string_view) { return ++count < at_most; });
  return std::min(count, at_most);
}

StepEnd end_of_step(const Reader& reader, InodeId content, uint64_t begin, uint64_t end, size_t at_most,
                    uint64_t stored_end) {
  StepEnd step{end, 0};
  const auto count = [&](const proto::Extent& extent) {
    if (extent.file_offset() >= end) return false;
    if (++step.extents < at_most) return true;
    step.end = std::min(end, end_of(extent));
    return false;
  };
  scan_extents(reader, content, begin, count, stored_end);
  return step;
}

void ExtentWriter::scan_stored(uint64_t begin, uint64_t end,
                               const std::function<void(const proto::Extent&)>& visit) {
  if (begin >= gap_begin_ && end <= gap_end_) return;
  gap_begin_ = begin;
  gap_end_ = UINT64_MAX;
  const auto look = [&](const proto::Extent& extent) {
    if (extent.file_offset() >= end) {
      gap_end_ = extent.file_offset();
      return false;
    }
    gap_begin_ = end_of(extent);
    if (++changes_ > most_) {
      gap_end_ = gap_begin_;
      return false;
    }
    visit(extent);
    return true;
  };
  scan_extents(transaction_.store(), content_, begin, look, stored_end_);
}

std::vector<proto::Extent> ExtentWriter::touching(uint64_t begin, uint64_t end) {
  std::vector<proto::Extent> found;
  auto own = changed_.upper_bound(begin);
  const auto take_own_up_to = [&](uint64_t last) {
    for (; own != changed_.end() && own->first <= last; ++own)
      if (own->second && own->second->file_offset() < end) found.push_back(*own->second);
  };
  scan_stored(begin, end, [&](const proto::Extent& stored) {
    take_own_up_to(end_of(stored));
    // One that was changed here has just been taken, or is gone.
    if (!changed_.contains(end_of(stored))) found.push_back(stored);
  });
  take_own_up_to(UINT64_MAX);
  return found;
}

void ExtentWriter::set(const proto::Extent& extent) {
  proto::StoredExtent stored;
  stored.set_length(extent.length());
  stored.set_stripe_id(extent.stripe_id());
  stored.set_stripe_offset(extent.stripe_offset());
  transaction_.put_message(keys::extent(content_, end_of(extent)), stored);
  changed_[end_of(extent)] = extent;
  ++changes_;
  References& references = references_[StripeId{extent.stripe_id()}];
  ++references.extents;
  references.bytes += static_cast<int64_t>(extent.length());
}

void ExtentWriter::erase(const proto::Extent& extent) {
  transaction_.remove(keys::extent(content_, end_of(extent)));
  changed_[end_of(extent)] = std::nullopt;
  References& references = references_[StripeId{extent.stripe_id()}];
  --references.extents;
  references.bytes -= static_cast<int64_t>(extent.length());
}

void ExtentWriter::clear(uint64_t begin, uint64_t end) {
  if (begin >= end) return;
  const std::vector<proto::Extent> all = touching(begin, end);
  for (const proto::Extent& old : all) {
    erase(old);
    if (old.file_offset() < begin) set(part_of(old, old.file_offset(), begin));
    if (end_of(old) > end) set(part_of(old, end, end_of(old)));
  }
  // A scan need not look for what is between so many that were removed.
  if (all.size() < kWorthTelling || is_full()) return;
  transaction_.emptied(extents_between(content_, begin, std::min(end, stored_end_)), all.size());
}

void ExtentWriter::put(const proto::Extent& extent) {
  KINTSUGI_ASSERT(extent.file_offset() <= kMaxFileBytes &&
                  extent.length() <= kMaxFileBytes - extent.file_offset());
  clear(extent.file_offset(), end_of(extent));
  if (extent.stripe_id() != 0 && extent.length() > 0) set(extent);
}

void ExtentWriter::finish(proto::StoredInode& inode, FreedStripes& freed) {
  for (const auto& [id, change] : references_) {
    if (change.extents == 0 && change.bytes == 0) continue;
    auto stripe = transaction_.get_message<proto::StoredStripe>(keys::stripe(id));
    KINTSUGI_ASSERT(stripe);
    inode.set_used_bytes(changed_by(inode.used_bytes(), change.bytes));
    // A share of the stripe's chunks, as far as this file has its bytes.
    const auto stored = static_cast<double>(stored_bytes(*stripe)) /
                        static_cast<double>(std::max<uint64_t>(1, stripe->length()));
    const auto stored_change = static_cast<int64_t>(stored * static_cast<double>(change.bytes));
    inode.set_stored_bytes(changed_by(inode.stored_bytes(), stored_change));
    stripe->set_references(changed_by(stripe->references(), change.extents));
    stripe->set_live_bytes(changed_by(stripe->live_bytes(), change.bytes));
    if (stripe->references() == 0) {
      free_stripe(transaction_, id, freed);
    } else {
      transaction_.put_message(keys::stripe(id), *stripe);
      if (change.bytes < 0) shrunken_.push_back(id);
    }
  }
  references_.clear();
}

}  // namespace kintsugi::metaserver
