#include "metaserver/namespace/ops/move.h"

#include "metaserver/namespace/ancestors.h"
#include "metaserver/namespace/change_time.h"
#include "metaserver/namespace/quotas.h"
#include "metaserver/namespace/reclaim.h"

namespace kintsugi::metaserver::ops {
namespace {

/// An entry with its inode.
struct Named {
  Entry entry;
  proto::StoredInode inode;
};

/// The four that a move is about, as they were before.
struct Parts {
  proto::StoredInode from, to;
  Named moved;
  std::optional<Named> target;

  bool both_are_one() const { return target && target->entry.id == moved.entry.id; }
};

Result<Parts> find_parts(const Transaction& transaction, const Caller& caller, const Move& what) {
  Parts parts;
  KINTSUGI_ASSIGN(parts.from, Inodes::changed(transaction, caller, what.from));
  const std::optional<Entry> moved = find_entry(transaction, what.from, what.name);
  if (!moved) return Status{Code::kNotFound, "does not exist"};
  KINTSUGI_ASSIGN(parts.to, Inodes::changed(transaction, caller, what.to));
  parts.moved.entry = *moved;
  KINTSUGI_ASSIGN(parts.moved.inode, Inodes::find(transaction, moved->id));
  KINTSUGI_TRY(check_sticky(caller, parts.from, parts.moved.inode));
  if (const std::optional<Entry> target = find_entry(transaction, what.to, what.to_name))
    parts.target = Named{*target, {}};
  return parts;
}

/// The directory would get into itself; a store with a loop is damaged, and nothing is moved there.
Status check_no_loop(const Transaction& transaction, Entry moved, InodeId into) {
  if (!moved.is_directory()) return {};
  const WalkEnd end = walk_up_to(transaction, into, moved.id);
  if (end == WalkEnd::kStopped || end == WalkEnd::kTooDeep)
    return {Code::kInvalidArgument, "cannot be moved into itself"};
  return {};
}

/// The entry `..` of a directory changes with its parent.
Status check_parent_change(const Transaction& transaction, const Caller& caller, const Named& moved) {
  if (!moved.entry.is_directory()) return {};
  return check_access(transaction, caller, moved.entry.id, moved.inode, kMayWrite);
}

/// Ok when whatever has the new name, or nothing, lets the move be. Reads the target's inode.
Status check_target(const Inodes& inodes, const Transaction& transaction, const Caller& caller,
                    const Move& what, Parts& parts) {
  std::optional<Named>& target = parts.target;
  const bool exchange = what.target == Target::kExchange;
  if (!target && exchange) return {Code::kNotFound, "does not exist"};
  if (!target) return inodes.check_new_name(what.to, what.to_name);
  if (what.target == Target::kMustNotExist) return {Code::kAlreadyExists, "exists already"};
  KINTSUGI_ASSIGN(target->inode, Inodes::find(transaction, target->entry.id));
  KINTSUGI_TRY(check_sticky(caller, parts.to, target->inode));
  if (!exchange) return check_replaceable(transaction, target->entry, parts.moved.entry);
  if (what.from == what.to) return {};
  KINTSUGI_TRY(check_no_loop(transaction, target->entry, what.from));
  return check_parent_change(transaction, caller, *target);
}

Status check_snapshots(const Inodes& inodes, const Transaction& transaction, const Move& what,
                       const std::optional<Named>& target) {
  const Snapshots* snapshots = inodes.snapshots();
  if (snapshots == nullptr) return {};
  const bool exchange = what.target == Target::kExchange;
  KINTSUGI_TRY(snapshots->check_move(transaction, what.from, what.to));
  if (exchange) KINTSUGI_TRY(snapshots->check_move(transaction, what.to, what.from));
  if (target && !exchange && target->entry.is_directory())
    KINTSUGI_TRY(snapshots->check_removal(transaction, target->entry.id, false));
  return {};
}

Status count(Transaction& transaction, const Move& what, Parts& parts) {
  // Also within a directory: what has not been counted there yet might get behind where the count is.
  const bool one_limit = parts.from.quota() == parts.to.quota() ||
                         limiting_quota(transaction, what.from) == limiting_quota(transaction, what.to);
  Named& moved = parts.moved;
  if (moved.inode.quota() != parts.to.quota())
    KINTSUGI_TRY(move_across_quotas(transaction, moved.entry.id, moved.inode, parts.to.quota(), one_limit));
  if (what.target != Target::kExchange || parts.target->inode.quota() == parts.from.quota()) return {};
  return move_across_quotas(transaction, parts.target->entry.id, parts.target->inode, parts.from.quota(),
                            one_limit);
}

void rename(const Inodes& inodes, Transaction& transaction, Named named, InodeId directory,
            std::string_view name) {
  put_entry(transaction, directory, name, named.entry);
  if (!named.entry.is_directory() && named.inode.links() > 1) named.inode.set_linked(true);
  named.inode.set_parent(directory.value);
  note_change(named.inode, inodes.now_ns());
  transaction.put_message(keys::inode(named.entry.id), named.inode);
}

}  // namespace

Status check_replaceable(const Transaction& transaction, Entry target, Entry moved) {
  if (target.is_directory() && !moved.is_directory()) return {Code::kIsDirectory, "is a directory"};
  if (!target.is_directory() && moved.is_directory()) return {Code::kNotDirectory, "is not a directory"};
  if (target.is_directory() && !is_empty_directory(transaction.store(), target.id))
    return {Code::kNotEmpty, "is not empty"};
  return {};
}

Status move(const Inodes& inodes, Transaction& transaction, const Caller& caller, const Move& what,
            FreedStripes& freed) {
  KINTSUGI_TRY(check_name(what.name));
  KINTSUGI_TRY(check_name(what.to_name));
  KINTSUGI_ASSIGN(Parts parts, find_parts(transaction, caller, what));
  KINTSUGI_TRY(check_no_loop(transaction, parts.moved.entry, what.to));
  // Both names are of one inode: POSIX wants nothing to happen.
  if (parts.both_are_one()) return {};
  if (what.from != what.to) KINTSUGI_TRY(check_parent_change(transaction, caller, parts.moved));
  KINTSUGI_TRY(check_target(inodes, transaction, caller, what, parts));
  KINTSUGI_TRY(check_snapshots(inodes, transaction, what, parts.target));
  KINTSUGI_TRY(count(transaction, what, parts));

  transaction.moved = true;
  const int gained = parts.moved.entry.is_directory() ? 1 : 0;
  const int lost = parts.target && parts.target->entry.is_directory() ? 1 : 0;
  rename(inodes, transaction, parts.moved, what.to, what.to_name);
  inodes.touch(transaction, what.to, gained - lost);
  if (what.target == Target::kExchange) {
    rename(inodes, transaction, *parts.target, what.from, what.name);
    inodes.touch(transaction, what.from, lost - gained);
    return {};
  }
  transaction.remove(keys::entry(what.from, what.name));
  inodes.touch(transaction, what.from, -gained);
  if (parts.target) inodes.drop(transaction, parts.target->entry, what.held, freed);
  return {};
}

}  // namespace kintsugi::metaserver::ops
