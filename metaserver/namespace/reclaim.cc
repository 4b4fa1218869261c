#include "metaserver/namespace/reclaim.h"

#include "metaserver/namespace/change_time.h"
#include "metaserver/schema/extents.h"

namespace kintsugi::metaserver {
namespace {

constexpr size_t kExtentsAStep = 32;
constexpr size_t kFreedAStep = 128;
/// Files of more extents in a directory that is reclaimed become orphans themselves: so a step stays within its bound.
constexpr size_t kExtentsOfAnEntry = 1;

void forget_inode(Transaction& transaction, InodeId id, const proto::StoredInode& inode) {
  transaction.remove(keys::inode(id));
  if (inode.has_xattrs()) {
    transaction.scan(keys::all(keys::Kind::kXattr, id.value), [&](std::string_view key, std::string_view) {
      transaction.remove(std::string(key));
      return true;
    });
    transaction.remove(keys::xattr(id, "system.posix_acl_access"));
    transaction.remove(keys::xattr(id, "system.posix_acl_default"));
  }
  adjust_totals(transaction, is_directory(inode) ? 0 : -1, is_directory(inode) ? -1 : 0, 0);
}

/// Frees the first extents of a file behind `begin`; returns where the last of them ended. nullopt: those were all.
std::optional<uint64_t> free_extents(Transaction& transaction, InodeId id, proto::StoredInode& inode,
                                     uint64_t begin, size_t at_most, FreedStripes& freed) {
  const InodeId content = content_of(id, inode);
  uint64_t end = begin;
  size_t seen = 0;
  bool all = true;
  scan_extents(transaction.store(), content, begin, [&](const proto::Extent& extent) {
    if (seen++ == at_most) return all = false;
    end = extent.file_offset() + extent.length();
    return true;
  });
  ExtentWriter writer(transaction, content);
  writer.clear(begin, end);
  writer.finish(inode, freed);
  if (all) return std::nullopt;
  return end;
}

}  // namespace

bool is_empty_directory(const Reader& reader, InodeId directory) {
  bool empty = true;
  reader.scan(keys::entries(directory), [&](std::string_view, std::string_view) { return empty = false; });
  return empty;
}

void drop_name(Transaction& transaction, Entry entry, const DropOptions& options, FreedStripes& freed) {
  auto inode = transaction.get_message<proto::StoredInode>(keys::inode(entry.id));
  KINTSUGI_ASSERT(inode);
  if (options.now_ns != 0) note_change(*inode, options.now_ns);
  const bool last = entry.is_directory() || inode->links() <= 1;
  inode->set_links(last ? 0 : inode->links() - 1);
  if (!last) inode->set_linked(true);
  if (!last) return transaction.put_message(keys::inode(entry.id), *inode);
  const bool held = options.held(entry.id);
  const auto is_empty = [&] {
    return options.is_empty ? *options.is_empty : is_empty_directory(transaction.store(), entry.id);
  };
  const bool large = entry.is_directory() ? !is_empty()
                                          : count_extents(transaction.store(), content_of(entry.id, *inode),
                                                          options.max_extents + 1) > options.max_extents;
  if (held || large) {
    // Who removes something has room for something else, although another one may still have it open for a while.
    if (!entry.is_directory() || !large) inode->set_quota(0);
    transaction.put_message(keys::inode(entry.id), *inode);
    transaction.put(keys::orphan(entry.id), held ? std::string(kHeldOrphan) : "");
    return;
  }
  if (!entry.is_directory()) free_extents(transaction, entry.id, *inode, 0, SIZE_MAX, freed);
  forget_inode(transaction, entry.id, *inode);
}

Status leave_content(Transaction& transaction, IdAllocator& ids, InodeId id, proto::StoredInode& inode) {
  KINTSUGI_ASSIGN(const uint64_t orphan, ids.take());
  KINTSUGI_ASSIGN(const uint64_t content, ids.take());
  proto::StoredInode left;
  left.set_type(proto::Attributes::FILE);
  left.set_content(content_of(id, inode).value);
  left.set_parent(inode.parent());
  left.set_linked(inode.linked() || inode.links() > 1);
  left.set_born(inode.born());
  left.set_used_bytes(inode.used_bytes());
  left.set_stored_bytes(inode.stored_bytes());
  transaction.put_message(keys::inode(InodeId{orphan}), left);
  transaction.put(keys::orphan(InodeId{orphan}), "");
  adjust_totals(transaction, 1, 0, 0);
  inode.set_content(content);
  inode.set_used_bytes(0);
  inode.set_stored_bytes(0);
  return {};
}

std::optional<InodeId> Reclaim::next_orphan(const Transaction& transaction,
                                            const std::function<bool(InodeId)>& held) {
  size_t looked_at = 0;
  std::optional<InodeId> found;
  InodeId last;
  const auto look = [&](std::string begin, std::string end) {
    transaction.scan({std::move(begin), std::move(end)}, [&](std::string_view key, std::string_view value) {
      last = InodeId{keys::first_id(key)};
      if (value == kHeldOrphan && held(last)) return ++looked_at < kMaxExamined;
      found = last;
      return false;
    });
    return found || looked_at >= kMaxExamined;
  };
  const keys::Range all = keys::all(keys::Kind::kOrphan);
  const std::string from = orphan_ ? keys::orphan(orphan_) : all.begin;
  if (!look(from, all.end)) look(all.begin, from);
  if (last.value != orphan_.value) {
    name_.clear();
    offset_ = 0;
  }
  orphan_ = last;
  return found;
}

bool Reclaim::step(Transaction& transaction, const std::function<bool(InodeId)>& held, FreedStripes& freed) {
  const std::optional<InodeId> orphan = next_orphan(transaction, held);
  if (!orphan) return false;
  const proto::StoredInode inode = load_inode(transaction.store(), *orphan);
  if (is_directory(inode)) {
    reclaim_directory(transaction, *orphan, inode, held, freed);
  } else {
    reclaim_file(transaction, *orphan, inode, freed);
  }
  return true;
}

void Reclaim::reclaim_file(Transaction& transaction, InodeId id, proto::StoredInode inode,
                           FreedStripes& freed) {
  // Nothing is written to a file that nobody can open any more, so what was freed stays free: unless the step before
  // was not stored.
  if (offset_ != 0 && transaction.get(keys::extent(content_of(id, inode), offset_))) offset_ = 0;
  if (const auto end = free_extents(transaction, id, inode, offset_, kExtentsAStep, freed)) {
    offset_ = *end;
    transaction.put_message(keys::inode(id), inode);
  } else {
    forget_inode(transaction, id, inode);
    transaction.remove(keys::orphan(id));
  }
}

void Reclaim::reclaim_directory(Transaction& transaction, InodeId id, const proto::StoredInode& inode,
                                const std::function<bool(InodeId)>& held, FreedStripes& freed) {
  size_t seen = 0;
  bool more = false;
  const DropOptions options{kExtentsOfAnEntry, 0, held};
  // The last step's commit may have failed: then what it removed is there still.
  if (!name_.empty() && transaction.get(keys::entry(id, name_))) name_.clear();
  // Nothing is made in a directory that was removed, so what was emptied stays empty.
  transaction.scan(keys::entries(id, name_), [&](std::string_view key, std::string_view value) {
    if (seen++ == kFreedAStep) {
      more = true;
      return false;
    }
    const auto stored = Reader::parse<proto::StoredDirectoryEntry>(value);
    transaction.remove(std::string(key));
    drop_name(transaction, {InodeId{stored.inode()}, static_cast<proto::Attributes::Type>(stored.type())},
              options, freed);
    name_ = keys::name_of_entry(key);
    return true;
  });
  if (more) return;
  forget_inode(transaction, id, inode);
  transaction.remove(keys::orphan(id));
}

}  // namespace kintsugi::metaserver
