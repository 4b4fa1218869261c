#include "metaserver/namespace/reclaim.h"

#include <set>

namespace kintsugi::metaserver {
namespace {

constexpr size_t kStripesAStep = 32;
constexpr size_t kEntriesAStep = 128;
/// Files of more stripes in a directory that is reclaimed become orphans themselves: so a step stays within its bound.
constexpr size_t kStripesOfAnEntry = 1;

std::set<uint64_t> stripes_of(const proto::StoredExtents& extents) {
  std::set<uint64_t> stripes;
  for (const proto::Extent& extent : extents.extents())
    stripes.insert(extent.stripe_id());
  return stripes;
}

void forget_inode(Transaction& transaction, InodeId id, bool is_directory) {
  transaction.remove(keys::inode(id));
  if (!is_directory) transaction.remove(keys::extents(id));
  adjust_totals(transaction, is_directory ? 0 : -1, is_directory ? -1 : 0, 0);
}

void reclaim_file(Transaction& transaction, InodeId id, FreedStripes& freed) {
  auto extents =
      transaction.get_message<proto::StoredExtents>(keys::extents(id)).value_or(proto::StoredExtents{});
  const std::set<uint64_t> stripes = stripes_of(extents);
  size_t done = 0;
  for (auto at = stripes.begin(); at != stripes.end() && done < kStripesAStep; ++at, ++done) {
    free_stripe(transaction, StripeId{*at}, freed);
  }
  if (done == stripes.size()) {
    forget_inode(transaction, id, false);
    transaction.remove(keys::orphan(id));
    return;
  }
  const uint64_t first_left = *std::next(stripes.begin(), static_cast<ptrdiff_t>(done));
  proto::StoredExtents left;
  for (const proto::Extent& extent : extents.extents()) {
    if (extent.stripe_id() >= first_left) *left.add_extents() = extent;
  }
  transaction.put_message(keys::extents(id), left);
}

void reclaim_directory(Transaction& transaction, InodeId id, FreedStripes& freed) {
  size_t seen = 0;
  bool more = false;
  transaction.scan(keys::entries(id), [&](std::string_view key, std::string_view value) {
    if (seen++ == kEntriesAStep) {
      more = true;
      return false;
    }
    const auto stored = Reader::parse<proto::StoredDirectoryEntry>(value);
    const Entry entry{InodeId{stored.inode()}, stored.type() == proto::Attributes::DIRECTORY};
    transaction.remove(std::string(key));
    unlink_inode(transaction, entry, kStripesOfAnEntry, freed);
    return true;
  });
  if (more) return;
  forget_inode(transaction, id, true);
  transaction.remove(keys::orphan(id));
}

}  // namespace

bool is_empty_directory(const Reader& reader, InodeId directory) {
  bool empty = true;
  reader.scan(keys::entries(directory), [&](std::string_view, std::string_view) { return empty = false; });
  return empty;
}

void unlink_inode(Transaction& transaction, Entry entry, size_t max_stripes, FreedStripes& freed) {
  bool orphan = entry.is_directory && !is_empty_directory(transaction.store(), entry.id);
  std::set<uint64_t> stripes;
  if (!entry.is_directory) {
    if (const auto extents = transaction.get_message<proto::StoredExtents>(keys::extents(entry.id))) {
      stripes = stripes_of(*extents);
    }
    orphan = stripes.size() > max_stripes;
  }
  if (orphan) {
    transaction.put(keys::orphan(entry.id), "");
    return;
  }
  for (uint64_t stripe : stripes)
    free_stripe(transaction, StripeId{stripe}, freed);
  forget_inode(transaction, entry.id, entry.is_directory);
}

bool reclaim_step(Transaction& transaction, FreedStripes& freed) {
  std::optional<InodeId> orphan;
  transaction.scan(keys::all(keys::Kind::kOrphan), [&](std::string_view key, std::string_view) {
    orphan = InodeId{keys::first_id(key)};
    return false;
  });
  if (!orphan) return false;
  if (is_directory(load_inode(transaction.store(), *orphan))) {
    reclaim_directory(transaction, *orphan, freed);
  } else {
    reclaim_file(transaction, *orphan, freed);
  }
  return true;
}

}  // namespace kintsugi::metaserver
