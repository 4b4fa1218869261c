#include "metaserver/namespace/ops/links.h"

#include <algorithm>
#include <utility>

#include "metaserver/namespace/change_time.h"
#include "metaserver/namespace/quotas.h"
#include "metaserver/namespace/reclaim.h"

namespace kintsugi::metaserver::ops {
namespace {

/// A name that is about to go.
struct Going {
  InodeId parent;
  std::string_view name;
  Entry entry;
  bool is_empty = false;  ///< the directory has no entries
};

/// Moves what is about to lose its last name into the trash. False: it is not to be kept, and nothing was changed.
bool discard(const Inodes& inodes, Transaction& transaction, const Going& going, proto::StoredInode inode) {
  const auto& [parent, name, entry, is_empty] = going;
  const bool lasts = entry.is_directory() ? !is_empty
                                          : inode.links() <= 1 && (entry.type == proto::Attributes::FILE ||
                                                                   entry.type == proto::Attributes::SYMLINK);
  const std::optional<InodeId> taker = lasts ? inodes.trash()->taker(transaction, parent) : std::nullopt;
  const std::optional<InodeId> bin = taker ? inodes.trash()->bin(transaction, *taker) : std::nullopt;
  if (!bin || *bin == entry.id) return false;
  if (inodes.snapshots() != nullptr && !inodes.snapshots()->check_move(transaction, parent, *bin).ok())
    return false;
  const auto into = transaction.get_message<proto::StoredInode>(keys::inode(*bin));
  const std::string entry_name = Trash::entry_name(name, entry.id, inodes.now_ns());
  if (!into || find_entry(transaction, *bin, entry_name)) return false;
  // The trash counts for what the directory of the trash counts for, and so does all below it: nothing gets more.
  if (inode.quota() != into->quota() &&
      !move_across_quotas(transaction, entry.id, inode, into->quota(), true).ok())
    return false;
  transaction.remove(keys::entry(parent, name));
  put_entry(transaction, *bin, entry_name, entry);
  inode.set_parent(bin->value);
  transaction.moved = true;
  note_change(inode, inodes.now_ns());
  transaction.put_message(keys::inode(entry.id), inode);
  inodes.touch(transaction, parent, entry.is_directory() ? -1 : 0);
  inodes.touch(transaction, *bin, entry.is_directory() ? +1 : 0);
  proto::StoredTrashed trashed;
  trashed.set_parent(parent.value);
  trashed.set_name(std::string(name));
  trashed.set_removed_ns(inodes.now_ns());
  trashed.set_inode(entry.id.value);
  Trash::note(transaction, *taker, entry_name, trashed);
  return true;
}

}  // namespace

Status link(const Inodes& inodes, Transaction& transaction, const Caller& caller, InodeId id, InodeId parent,
            std::string_view name) {
  KINTSUGI_TRY(check_name(name));
  KINTSUGI_ASSIGN(proto::StoredInode inode, Inodes::find(transaction, id));
  if (is_directory(inode)) return {Code::kNotPermitted, "is a directory"};
  if (const auto directory = Inodes::searched(transaction, caller, parent); !directory)
    return directory.error();
  if (find_entry(transaction, parent, name)) return {Code::kAlreadyExists, "exists already"};
  KINTSUGI_TRY(inodes.check_new_name(parent, name));
  KINTSUGI_ASSIGN(const proto::StoredInode directory, Inodes::changed(transaction, caller, parent));
  if (inode.links() == UINT32_MAX) return {Code::kTooManyLinks, "has too many names"};
  if (inode.links() == 0) {
    // One without a name gets its first; one that has lost its last name is gone.
    if (transaction.get(keys::orphan(id)) != kHeldOrphan) return {Code::kNotFound, "does not exist any more"};
    transaction.remove(keys::orphan(id));
    inode.set_parent(parent.value);
    inode.set_quota(directory.quota());
    // It lost its last name while there were snapshots, which may have it under that name.
    if (inode.gone() != 0) inode.set_linked(true);
  } else {
    KINTSUGI_TRY(link_across_quotas(transaction, inode, directory.quota()));
    inode.set_linked(true);
  }
  transaction.moved = true;
  inode.set_links(inode.links() + 1);
  note_change(inode, inodes.now_ns());
  transaction.put_message(keys::inode(id), inode);
  put_entry(transaction, parent, name, {id, static_cast<proto::Attributes::Type>(inode.type())});
  inodes.touch(transaction, parent, 0);
  return {};
}

Status unlink(const Inodes& inodes, Transaction& transaction, const Caller& caller, const Unlink& what,
              FreedStripes& freed) {
  const auto [parent, name] = std::pair(what.parent, what.name);
  KINTSUGI_TRY(check_name(name));
  if (const auto directory = Inodes::searched(transaction, caller, parent); !directory)
    return directory.error();
  const std::optional<Entry> entry = find_entry(transaction, parent, name);
  if (!entry) return {Code::kNotFound, "does not exist"};
  KINTSUGI_ASSIGN(const proto::StoredInode directory, Inodes::changed(transaction, caller, parent));
  KINTSUGI_ASSIGN(const proto::StoredInode inode, Inodes::find(transaction, entry->id));
  KINTSUGI_TRY(check_sticky(caller, directory, inode));
  if (what.kind == Kind::kDirectory && !entry->is_directory())
    return {Code::kNotDirectory, "is not a directory"};
  if (what.kind == Kind::kOther && entry->is_directory()) return {Code::kIsDirectory, "is a directory"};
  const bool is_empty = entry->is_directory() && is_empty_directory(transaction.store(), entry->id);
  if (entry->is_directory() && !what.recursive && !is_empty) return {Code::kNotEmpty, "is not empty"};
  if (inodes.snapshots() != nullptr && entry->is_directory())
    KINTSUGI_TRY(inodes.snapshots()->check_removal(transaction, entry->id, what.recursive));
  if (inodes.trash() != nullptr && discard(inodes, transaction, {parent, name, *entry, is_empty}, inode))
    return {};
  transaction.remove(keys::entry(parent, name));
  const int64_t now = inodes.now_ns();
  inodes.touch(transaction, parent, entry->is_directory() ? -1 : 0,
               what.at_ns > 0 ? std::min(what.at_ns, now) : now);
  inodes.drop(transaction, *entry, what.held, freed, is_empty);
  return {};
}

}  // namespace kintsugi::metaserver::ops
