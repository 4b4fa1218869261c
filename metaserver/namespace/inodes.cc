#include "metaserver/namespace/inodes.h"

#include <algorithm>

#include "metaserver/namespace/change_time.h"
#include "metaserver/namespace/path.h"
#include "metaserver/namespace/quotas.h"
#include "metaserver/namespace/reclaim.h"

namespace kintsugi::metaserver {
namespace {

constexpr int kMaxDepth = 4096;  ///< of directories: a loop would be a damaged store
constexpr std::string_view kCapabilities = "security.capability";
constexpr size_t kMaxXattrBytes = 64 << 10, kMaxXattrNamesBytes = 64 << 10;

void put_entry(Transaction& transaction, InodeId parent, std::string_view name, Entry entry) {
  proto::StoredDirectoryEntry stored;
  stored.set_inode(entry.id.value);
  stored.set_type(entry.type);
  transaction.put_message(keys::entry(parent, name), stored);
}

std::optional<Entry> entry_in(const Transaction& transaction, InodeId parent, std::string_view name) {
  const auto stored = transaction.get_message<proto::StoredDirectoryEntry>(keys::entry(parent, name));
  if (!stored) return std::nullopt;
  return Entry{InodeId{stored->inode()}, static_cast<proto::Attributes::Type>(stored->type())};
}

/// A directory that may be searched for names.
Result<proto::StoredInode> searched(const Transaction& transaction, const Caller& caller, InodeId id) {
  KINTSUGI_ASSIGN(proto::StoredInode directory, Inodes::find(transaction, id));
  if (!is_directory(directory)) return Status{Code::kNotDirectory, "is not in a directory"};
  KINTSUGI_TRY(check_access(transaction, caller, id, directory, kMayExecute));
  return directory;
}

/// A directory that names may be added to or removed from.
Result<proto::StoredInode> changed(const Transaction& transaction, const Caller& caller, InodeId id) {
  KINTSUGI_ASSIGN(proto::StoredInode directory, searched(transaction, caller, id));
  if (directory.links() == 0) return Status{Code::kNotFound, "is in a directory that was removed"};
  KINTSUGI_TRY(check_access(transaction, caller, id, directory, kMayWrite));
  return directory;
}

bool lies_within(const Transaction& transaction, InodeId directory, InodeId other) {
  for (int depth = 0; depth < kMaxDepth; ++depth) {
    if (directory == other) return true;
    if (directory == kRootInode || !directory) return false;
    const auto inode = transaction.get_message<proto::StoredInode>(keys::inode(directory));
    if (!inode) return false;
    directory = InodeId{inode->parent()};
  }
  return true;
}

/// What a new inode gets from the default access list of its directory. False: there is none.
bool inherit_access(Transaction& transaction, InodeId parent, const proto::StoredInode& directory, InodeId id,
                    proto::StoredInode& inode) {
  if (!directory.has_xattrs()) return false;
  const auto bytes = transaction.get(keys::xattr(parent, kDefaultList));
  if (!bytes) return false;
  Result<AccessList> list = AccessList::parse(*bytes);
  if (!list) return false;
  if (is_directory(inode)) {
    transaction.put(keys::xattr(id, kDefaultList), *bytes);
    inode.set_has_xattrs(true);
  }
  // What the list grants, as far as whoever makes it asked for it.
  list->apply_mode(list->mode() & inode.mode());
  inode.set_mode((inode.mode() & ~0777u) | list->mode());
  if (!list->is_minimal()) {
    transaction.put(keys::xattr(id, kAccessList), list->serialise());
    inode.set_has_xattrs(true);
  }
  return true;
}

enum class Namespace : uint8_t { kUser, kTrusted, kSecurity, kAccessList, kDefaultList, kNameless, kNone };

Namespace namespace_of(std::string_view name) {
  if (name == "user." || name == "trusted." || name == "security.") return Namespace::kNameless;
  if (name.starts_with("user.")) return Namespace::kUser;
  if (name.starts_with("trusted.")) return Namespace::kTrusted;
  if (name.starts_with("security.")) return Namespace::kSecurity;
  if (name == kAccessList) return Namespace::kAccessList;
  if (name == kDefaultList) return Namespace::kDefaultList;
  return Namespace::kNone;
}

bool is_access_list(std::string_view name) {
  return name == kAccessList || name == kDefaultList;
}

/// Ok when an attribute may have this name. kInvalidArgument, kNotSupported.
Status check_xattr_name(std::string_view name) {
  switch (namespace_of(name)) {
    case Namespace::kNameless: return {Code::kInvalidArgument, "cannot have an attribute without a name"};
    case Namespace::kNone: return {Code::kNotSupported, "cannot have an attribute of this name"};
    default: return {};
  }
}

Status check_xattr_change(const Transaction& transaction, const Caller& caller, InodeId id,
                          const proto::StoredInode& inode, const proto::SetXattrRequest& request) {
  const std::string_view name = request.name();
  const bool owner = caller.is_root() || caller.uid == inode.uid();
  const Status not_permitted{Code::kNotPermitted, "may have its attributes changed by others only"};
  switch (namespace_of(name)) {
    case Namespace::kUser:
      if (inode.type() != proto::Attributes::FILE && !is_directory(inode)) return not_permitted;
      if (is_directory(inode) && (inode.mode() & kSticky) != 0 && !owner) return not_permitted;
      return check_access(transaction, caller, id, inode, kMayWrite);
    case Namespace::kSecurity:
      // Whoever may change a file takes its capabilities away by that.
      if (request.remove() && name == kCapabilities &&
          (owner || check_access(transaction, caller, id, inode, kMayWrite).ok()))
        return {};
      return caller.is_root() ? Status{} : not_permitted;
    case Namespace::kTrusted: return caller.is_root() ? Status{} : not_permitted;
    case Namespace::kDefaultList:
      if (!is_directory(inode))
        return {Code::kAccessDenied, "is no directory and has no default access list"};
      return owner ? Status{} : not_permitted;
    case Namespace::kAccessList:
      if (inode.type() == proto::Attributes::SYMLINK)
        return {Code::kNotSupported, "is a symbolic link and has no access list"};
      return owner ? Status{} : not_permitted;
    case Namespace::kNameless:
    case Namespace::kNone: break;
  }
  return check_xattr_name(name);
}

/// Sets the mode and the access list that says the same.
void set_mode(Transaction& transaction, InodeId id, proto::StoredInode& inode, uint32_t mode) {
  inode.set_mode(mode);
  if (!inode.has_xattrs()) return;
  const auto bytes = transaction.get(keys::xattr(id, kAccessList));
  if (!bytes) return;
  Result<AccessList> list = AccessList::parse(*bytes);
  if (!list) return;
  list->apply_mode(mode);
  transaction.put(keys::xattr(id, kAccessList), list->serialise());
}

}  // namespace

Status check_name(std::string_view name) {
  if (name.size() > kMaxNameBytes) return {Code::kNameTooLong, "is too long a name"};
  if (name.empty() || name == "." || name == ".." || name.find('/') != name.npos ||
      name.find('\0') != name.npos)
    return {Code::kInvalidArgument, "is no name"};
  return {};
}

void clear_privileges(Transaction& transaction, InodeId id, proto::StoredInode& inode, const Caller& caller) {
  if (is_directory(inode)) return;
  if (inode.has_xattrs() && transaction.get(keys::xattr(id, kCapabilities)))
    transaction.remove(keys::xattr(id, kCapabilities));
  uint32_t mode = inode.mode() & ~kSetUid;
  // Without the right to execute, the bit stands for locks that keep others out, which only the group's members keep.
  if ((mode & 0010) != 0 || (!caller.is_root() && !caller.in_group(inode.gid()))) mode &= ~kSetGid;
  inode.set_mode(mode);
}

Status check_replaceable(const Transaction& transaction, Entry target, Entry moved) {
  if (target.is_directory() && !moved.is_directory()) return {Code::kIsDirectory, "is a directory"};
  if (!target.is_directory() && moved.is_directory()) return {Code::kNotDirectory, "is not a directory"};
  if (target.is_directory() && !is_empty_directory(transaction.store(), target.id))
    return {Code::kNotEmpty, "is not empty"};
  return {};
}

Result<proto::StoredInode> Inodes::find(const Transaction& transaction, InodeId id) {
  // Whoever reads has looked it up in the snapshot (places.h).
  if (SnapshotInode::is(id)) return Status{Code::kReadOnly, "is in a snapshot"};
  auto inode = transaction.get_message<proto::StoredInode>(keys::inode(id));
  if (!inode) return Status{Code::kStale, "does not exist any more"};
  return std::move(*inode);
}

Result<InodeId> Inodes::lookup(const Transaction& transaction, const Caller& caller, InodeId parent,
                               std::string_view name) {
  KINTSUGI_ASSIGN(const proto::StoredInode directory, searched(transaction, caller, parent));
  if (name == ".") return parent;
  if (name == "..") return parent == kRootInode ? parent : InodeId{directory.parent()};
  KINTSUGI_TRY(check_name(name));
  const std::optional<Entry> entry = entry_in(transaction, parent, name);
  if (!entry) return Status{Code::kNotFound, "does not exist"};
  return entry->id;
}

Result<proto::ListResponse> Inodes::list(const Transaction& transaction, InodeId id, std::string_view after,
                                         uint32_t limit, bool names_only) {
  if (after.size() > kMaxNameBytes)
    return Status{Code::kInvalidArgument, "cannot be listed after a name that is too long"};
  KINTSUGI_ASSIGN(const proto::StoredInode directory, find(transaction, id));
  if (!is_directory(directory)) return Status{Code::kNotDirectory, "is not a directory"};
  limit =
      std::min(limit == 0 ? kDefaultListEntries : limit, names_only ? kMaxListEntries : kMaxListAttributes);
  proto::ListResponse response;
  *response.mutable_self() = to_attributes(id, directory);
  transaction.scan(keys::entries(id, after), [&](std::string_view key, std::string_view value) {
    if (static_cast<uint32_t>(response.entries_size()) == limit) {
      response.set_more(true);
      return false;
    }
    const auto stored = Reader::parse<proto::StoredDirectoryEntry>(value);
    proto::DirectoryEntry& listed = *response.add_entries();
    listed.set_name(std::string(keys::name_of_entry(key)));
    if (names_only) {
      listed.mutable_attributes()->set_inode(stored.inode());
      listed.mutable_attributes()->set_type(static_cast<proto::Attributes::Type>(stored.type()));
    } else {
      const InodeId child{stored.inode()};
      *listed.mutable_attributes() = to_attributes(child, load_inode(transaction.store(), child));
    }
    return true;
  });
  return response;
}

proto::StoredInode Inodes::touch(Transaction& transaction, InodeId directory, int link_change,
                                 int64_t at_ns) const {
  auto inode = transaction.get_message<proto::StoredInode>(keys::inode(directory));
  KINTSUGI_ASSERT(inode);
  inode->set_links(inode->links() + static_cast<uint32_t>(link_change));
  if (at_ns == 0) at_ns = now_ns();
  inode->set_modified_ns(at_ns);
  note_change(*inode, at_ns);
  transaction.put_message(keys::inode(directory), *inode);
  return std::move(*inode);
}

proto::StoredInode Inodes::fresh(proto::Attributes::Type type, uint32_t mode) const {
  proto::StoredInode inode;
  inode.set_type(type);
  inode.set_mode(mode & kPermissionBits);
  inode.set_links(type == proto::Attributes::DIRECTORY ? 2 : 1);
  inode.set_modified_ns(now_ns());
  inode.set_changed_ns(now_ns());
  inode.set_accessed_ns(now_ns());
  return inode;
}

Status Inodes::check_new_name(InodeId directory, std::string_view name) const {
  KINTSUGI_TRY(check_name(name));
  return snapshots_ != nullptr ? snapshots_->check_new_name(directory, name) : Status{};
}

void Inodes::put(Transaction& transaction, InodeId parent, std::string_view name, InodeId id,
                 proto::StoredInode inode) const {
  const proto::StoredInode directory =
      touch(transaction, parent, is_directory(inode) ? +1 : 0, inode.changed_ns());
  inode.set_parent(parent.value);
  inode.set_quota(directory.quota());
  transaction.put_message(keys::inode(id), inode);
  put_entry(transaction, parent, name, {id, static_cast<proto::Attributes::Type>(inode.type())});
  adjust_totals(transaction, is_directory(inode) ? 0 : 1, is_directory(inode) ? 1 : 0, 0);
}

Result<InodeId> Inodes::add(Transaction& transaction, const Caller& caller, InodeId parent,
                            const NewInode& made, bool nameless) const {
  KINTSUGI_ASSIGN(const proto::StoredInode directory, changed(transaction, caller, parent));
  if (made.target.size() > kMaxTargetBytes) return Status{Code::kNameTooLong, "points to too long a path"};
  InodeId id = made.id;
  if (!id) {
    KINTSUGI_ASSIGN(const uint64_t taken, ids_.take());
    id = InodeId{taken};
  }
  proto::StoredInode inode = fresh(made.type, made.mode);
  if (made.at_ns != 0 && made.at_ns < inode.modified_ns()) {
    inode.set_modified_ns(made.at_ns);
    inode.set_changed_ns(made.at_ns);
    inode.set_accessed_ns(made.at_ns);
  }
  inode.set_uid(caller.uid);
  inode.set_gid(caller.gid);
  if ((directory.mode() & kSetGid) != 0) {
    inode.set_gid(directory.gid());
    if (made.type == proto::Attributes::DIRECTORY) {
      inode.set_mode(inode.mode() | kSetGid);
    } else if (!caller.is_root() && !caller.in_group(directory.gid()) && (inode.mode() & 0010) != 0) {
      inode.set_mode(inode.mode() & ~kSetGid);
    }
  }
  if (made.type == proto::Attributes::SYMLINK) {
    inode.set_target(made.target);
    inode.set_mode(0777);
    inode.set_size(made.target.size());
  } else if (!inherit_access(transaction, parent, directory, id, inode)) {
    inode.set_mode(inode.mode() & ~(made.umask & 0777));
  }
  inode.set_parent(parent.value);
  inode.set_quota(directory.quota());
  if (made.type == proto::Attributes::FILE) inode.set_policy(made.policy);
  inode.set_device(made.device);
  if (nameless) inode.set_links(0);
  transaction.put_message(keys::inode(id), inode);
  return id;
}

Result<InodeId> Inodes::make(Transaction& transaction, const Caller& caller, InodeId parent,
                             std::string_view name, const NewInode& made) const {
  KINTSUGI_TRY(check_name(name));
  if (const auto directory = searched(transaction, caller, parent); !directory) return directory.error();
  if (entry_in(transaction, parent, name)) return Status{Code::kAlreadyExists, "exists already"};
  KINTSUGI_TRY(check_new_name(parent, name));
  KINTSUGI_ASSIGN(const InodeId id, add(transaction, caller, parent, made, false));
  put(transaction, parent, name, id, *transaction.get_message<proto::StoredInode>(keys::inode(id)));
  return id;
}

Result<InodeId> Inodes::make_nameless(Transaction& transaction, const Caller& caller, InodeId parent,
                                      const NewInode& made) const {
  if (made.type != proto::Attributes::FILE) return Status{Code::kInvalidArgument, "must be a file"};
  KINTSUGI_ASSIGN(const InodeId id, add(transaction, caller, parent, made, true));
  transaction.put(keys::orphan(id), std::string(kHeldOrphan));
  adjust_totals(transaction, 1, 0, 0);
  return id;
}

Status Inodes::link(Transaction& transaction, const Caller& caller, InodeId id, InodeId parent,
                    std::string_view name) const {
  KINTSUGI_TRY(check_name(name));
  KINTSUGI_ASSIGN(proto::StoredInode inode, find(transaction, id));
  if (is_directory(inode)) return {Code::kNotPermitted, "is a directory"};
  if (const auto directory = searched(transaction, caller, parent); !directory) return directory.error();
  if (entry_in(transaction, parent, name)) return {Code::kAlreadyExists, "exists already"};
  KINTSUGI_TRY(check_new_name(parent, name));
  KINTSUGI_ASSIGN(const proto::StoredInode directory, changed(transaction, caller, parent));
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
  note_change(inode, now_ns());
  transaction.put_message(keys::inode(id), inode);
  put_entry(transaction, parent, name, {id, static_cast<proto::Attributes::Type>(inode.type())});
  touch(transaction, parent, 0);
  return {};
}

void Inodes::drop(Transaction& transaction, Entry entry, const std::function<bool(InodeId)>& held,
                  FreedStripes& freed, std::optional<bool> is_empty) const {
  drop_name(transaction, entry, {kMaxExtentsFreedAtOnce, now_ns(), held, is_empty}, freed);
}

Status Inodes::unlink(Transaction& transaction, const Caller& caller, InodeId parent, std::string_view name,
                      const Unlinked& how, FreedStripes& freed) const {
  KINTSUGI_TRY(check_name(name));
  if (const auto directory = searched(transaction, caller, parent); !directory) return directory.error();
  const std::optional<Entry> entry = entry_in(transaction, parent, name);
  if (!entry) return {Code::kNotFound, "does not exist"};
  KINTSUGI_ASSIGN(const proto::StoredInode directory, changed(transaction, caller, parent));
  KINTSUGI_ASSIGN(const proto::StoredInode inode, find(transaction, entry->id));
  KINTSUGI_TRY(check_sticky(caller, directory, inode));
  if (how.kind == Kind::kDirectory && !entry->is_directory())
    return {Code::kNotDirectory, "is not a directory"};
  if (how.kind == Kind::kOther && entry->is_directory()) return {Code::kIsDirectory, "is a directory"};
  const bool is_empty = entry->is_directory() && is_empty_directory(transaction.store(), entry->id);
  if (entry->is_directory() && !how.recursive && !is_empty) return {Code::kNotEmpty, "is not empty"};
  if (snapshots_ != nullptr && entry->is_directory())
    KINTSUGI_TRY(snapshots_->check_removal(transaction, entry->id, how.recursive));
  if (trash_ != nullptr && discard(transaction, parent, name, *entry, inode, is_empty)) return {};
  transaction.remove(keys::entry(parent, name));
  const int64_t now = now_ns();
  touch(transaction, parent, entry->is_directory() ? -1 : 0, how.at_ns > 0 ? std::min(how.at_ns, now) : now);
  drop(transaction, *entry, how.held, freed, is_empty);
  return {};
}

bool Inodes::discard(Transaction& transaction, InodeId parent, std::string_view name, Entry entry,
                     proto::StoredInode inode, bool is_empty) const {
  const bool lasts = entry.is_directory() ? !is_empty
                                          : inode.links() <= 1 && (entry.type == proto::Attributes::FILE ||
                                                                   entry.type == proto::Attributes::SYMLINK);
  const std::optional<InodeId> taker = lasts ? trash_->taker(transaction, parent) : std::nullopt;
  const std::optional<InodeId> bin = taker ? trash_->bin(transaction, *taker) : std::nullopt;
  if (!bin || *bin == entry.id) return false;
  if (snapshots_ != nullptr && !snapshots_->check_move(transaction, parent, *bin).ok()) return false;
  const auto into = transaction.get_message<proto::StoredInode>(keys::inode(*bin));
  const std::string entry_name = Trash::entry_name(name, entry.id, now_ns());
  if (!into || entry_in(transaction, *bin, entry_name)) return false;
  // The trash counts for what the directory of the trash counts for, and so does all below it: nothing gets more.
  if (inode.quota() != into->quota() &&
      !move_across_quotas(transaction, entry.id, inode, into->quota(), true).ok())
    return false;
  transaction.remove(keys::entry(parent, name));
  put_entry(transaction, *bin, entry_name, entry);
  inode.set_parent(bin->value);
  transaction.moved = true;
  note_change(inode, now_ns());
  transaction.put_message(keys::inode(entry.id), inode);
  touch(transaction, parent, entry.is_directory() ? -1 : 0);
  touch(transaction, *bin, entry.is_directory() ? +1 : 0);
  proto::StoredTrashed trashed;
  trashed.set_parent(parent.value);
  trashed.set_name(std::string(name));
  trashed.set_removed_ns(now_ns());
  trashed.set_inode(entry.id.value);
  Trash::note(transaction, *taker, entry_name, trashed);
  return true;
}

Status Inodes::move(Transaction& transaction, const Caller& caller, InodeId from, std::string_view from_name,
                    InodeId to, std::string_view to_name, Target how,
                    const std::function<bool(InodeId)>& held, FreedStripes& freed) const {
  KINTSUGI_TRY(check_name(from_name));
  KINTSUGI_TRY(check_name(to_name));
  KINTSUGI_ASSIGN(const proto::StoredInode from_directory, changed(transaction, caller, from));
  const std::optional<Entry> moved = entry_in(transaction, from, from_name);
  if (!moved) return {Code::kNotFound, "does not exist"};
  KINTSUGI_ASSIGN(const proto::StoredInode to_directory, changed(transaction, caller, to));
  KINTSUGI_ASSIGN(proto::StoredInode inode, find(transaction, moved->id));
  KINTSUGI_TRY(check_sticky(caller, from_directory, inode));
  if (moved->is_directory() && lies_within(transaction, to, moved->id))
    return {Code::kInvalidArgument, "cannot be moved into itself"};
  const std::optional<Entry> target = entry_in(transaction, to, to_name);
  // Both names are of one inode: POSIX wants nothing to happen.
  if (target && target->id == moved->id) return {};
  const bool other_parent = from != to;
  if (moved->is_directory() && other_parent)
    KINTSUGI_TRY(check_access(transaction, caller, moved->id, inode, kMayWrite));
  std::optional<proto::StoredInode> target_inode;
  if (target) {
    if (how == Target::kMustNotExist) return {Code::kAlreadyExists, "exists already"};
    KINTSUGI_ASSIGN(target_inode, find(transaction, target->id));
    KINTSUGI_TRY(check_sticky(caller, to_directory, *target_inode));
  }
  const bool exchange = how == Target::kExchange;
  if (exchange && !target) return {Code::kNotFound, "does not exist"};
  if (exchange && target->is_directory() && other_parent) {
    if (lies_within(transaction, from, target->id))
      return {Code::kInvalidArgument, "cannot be moved into itself"};
    KINTSUGI_TRY(check_access(transaction, caller, target->id, *target_inode, kMayWrite));
  }
  if (target && !exchange) KINTSUGI_TRY(check_replaceable(transaction, *target, *moved));
  if (!target) KINTSUGI_TRY(check_new_name(to, to_name));
  if (snapshots_ != nullptr) {
    KINTSUGI_TRY(snapshots_->check_move(transaction, from, to));
    if (exchange) KINTSUGI_TRY(snapshots_->check_move(transaction, to, from));
    if (target && !exchange && target->is_directory())
      KINTSUGI_TRY(snapshots_->check_removal(transaction, target->id, false));
  }

  // Also within a directory: what has not been counted there yet might get behind where the count is.
  const bool one_quota = from_directory.quota() == to_directory.quota();
  const bool one_limit = one_quota || limiting_quota(transaction, from) == limiting_quota(transaction, to);
  if (inode.quota() != to_directory.quota())
    KINTSUGI_TRY(move_across_quotas(transaction, moved->id, inode, to_directory.quota(), one_limit));
  if (exchange && target_inode->quota() != from_directory.quota())
    KINTSUGI_TRY(
        move_across_quotas(transaction, target->id, *target_inode, from_directory.quota(), one_limit));

  put_entry(transaction, to, to_name, *moved);
  if (!moved->is_directory() && inode.links() > 1) inode.set_linked(true);
  inode.set_parent(to.value);
  transaction.moved = true;
  note_change(inode, now_ns());
  transaction.put_message(keys::inode(moved->id), inode);
  const int gained = moved->is_directory() ? 1 : 0, lost = target && target->is_directory() ? 1 : 0;
  touch(transaction, to, gained - lost);
  if (exchange) {
    put_entry(transaction, from, from_name, *target);
    if (!target->is_directory() && target_inode->links() > 1) target_inode->set_linked(true);
    target_inode->set_parent(from.value);
    note_change(*target_inode, now_ns());
    transaction.put_message(keys::inode(target->id), *target_inode);
    touch(transaction, from, lost - gained);
    return {};
  }
  transaction.remove(keys::entry(from, from_name));
  touch(transaction, from, -gained);
  if (target) drop(transaction, *target, held, freed);
  return {};
}

Status Inodes::set_attributes(Transaction& transaction, const Caller& caller,
                              const proto::SetAttributesRequest& request, FreedStripes& freed) const {
  const InodeId id{request.inode()};
  KINTSUGI_ASSIGN(proto::StoredInode inode, find(transaction, id));
  const bool owner = caller.is_root() || caller.uid == inode.uid();
  const Status not_permitted{Code::kNotPermitted, "may be changed so by its owner only"};
  const bool explicit_times = request.has_modified_ns() || request.has_accessed_ns();
  if ((request.has_mode() || explicit_times) && !owner) return not_permitted;
  if ((request.modified_now() || request.accessed_now()) && !owner)
    KINTSUGI_TRY(check_access(transaction, caller, id, inode, kMayWrite));
  if (request.has_uid() || request.has_gid()) {
    const bool other_user = request.has_uid() && request.uid() != inode.uid();
    const bool other_group = request.has_gid() && request.gid() != inode.gid();
    if (!owner || (other_user && !caller.is_root())) return not_permitted;
    if (other_group && !caller.is_root() && !caller.in_group(request.gid())) return not_permitted;
    clear_privileges(transaction, id, inode, caller);
    if (request.has_uid()) inode.set_uid(request.uid());
    if (request.has_gid()) inode.set_gid(request.gid());
  }
  if (request.kill_privileges()) {
    const uint32_t before = inode.mode();
    clear_privileges(transaction, id, inode, caller);
    // Who may write takes them away by that; somebody else would change the owner to what it is, and must own the file.
    const bool by_writing =
        request.has_size() || check_access(transaction, caller, id, inode, kMayWrite).ok();
    if (inode.mode() != before && !owner && !by_writing) return not_permitted;
  }
  if (request.has_mode()) {
    uint32_t mode = request.mode() & kPermissionBits;
    if (!caller.is_root() && !caller.in_group(inode.gid())) mode &= ~kSetGid;
    set_mode(transaction, id, inode, mode);
  }
  const int64_t now = now_ns();
  if (request.has_size()) {
    if (is_directory(inode)) return {Code::kIsDirectory, "is a directory"};
    if (inode.type() != proto::Attributes::FILE) return {Code::kInvalidArgument, "has no size"};
    if (request.size() > kMaxFileBytes) return {Code::kFileTooLarge, "cannot be so large"};
    if (!request.opened_for_writing()) KINTSUGI_TRY(check_access(transaction, caller, id, inode, kMayWrite));
    const InodeId content = content_of(id, inode);
    const bool all =
        request.size() == 0 &&
        count_extents(transaction.store(), content, kMaxExtentsFreedAtOnce + 1) > kMaxExtentsFreedAtOnce;
    if (all) {
      KINTSUGI_TRY(leave_content(transaction, ids_, id, inode));
    } else if (request.size() < inode.size()) {
      ExtentWriter writer(transaction, content, inode.size());
      writer.clear(request.size(), UINT64_MAX);
      writer.finish(inode, freed);
    }
    inode.set_size(request.size());
    inode.set_modified_ns(now);
  }
  if (request.has_modified_ns()) inode.set_modified_ns(request.modified_ns());
  if (request.has_accessed_ns()) inode.set_accessed_ns(request.accessed_ns());
  if (request.modified_now()) inode.set_modified_ns(now);
  if (request.accessed_now()) inode.set_accessed_ns(now);
  note_change(inode, now);
  transaction.put_message(keys::inode(id), inode);
  return {};
}

Result<std::string> Inodes::get_xattr(const Transaction& transaction, const Caller& caller, InodeId id,
                                      std::string_view name) const {
  KINTSUGI_ASSIGN(const proto::StoredInode inode, find(transaction, id));
  KINTSUGI_TRY(check_xattr_name(name));
  const Namespace space = namespace_of(name);
  if (space == Namespace::kUser) KINTSUGI_TRY(check_access(transaction, caller, id, inode, kMayRead));
  const Status none{Code::kNoData, "has no such attribute"};
  if (space == Namespace::kTrusted && !caller.is_root()) return none;
  if (!inode.has_xattrs()) return none;
  auto value = transaction.get(keys::xattr(id, name));
  if (!value) return none;
  return std::move(*value);
}

Status Inodes::set_xattr(Transaction& transaction, const Caller& caller,
                         const proto::SetXattrRequest& request) const {
  const InodeId id{request.inode()};
  KINTSUGI_ASSIGN(proto::StoredInode inode, find(transaction, id));
  const std::string& name = request.name();
  if (name.empty() || name.size() > kMaxNameBytes || name.find('\0') != name.npos)
    return {Code::kRange, "cannot have an attribute of this name"};
  KINTSUGI_TRY(check_xattr_change(transaction, caller, id, inode, request));
  if (request.value().size() > kMaxXattrBytes) return {Code::kTooBig, "cannot have so large an attribute"};
  const std::string key = keys::xattr(id, name);
  const bool exists = inode.has_xattrs() && transaction.get(key).has_value();
  if (request.create() && exists) return {Code::kAlreadyExists, "has that attribute already"};
  // An access list is always there: it is the mode's when none was set.
  if (request.remove() && !exists && is_access_list(name)) return {};
  if ((request.replace() || request.remove()) && !exists) return {Code::kNoData, "has no such attribute"};
  note_change(inode, now_ns());
  bool stored = !request.remove();
  if (stored && is_access_list(name)) {
    KINTSUGI_ASSIGN(const AccessList list, AccessList::parse(request.value()));
    if (name == kAccessList) {
      inode.set_mode((inode.mode() & ~0777u) | list.mode());
      if (!caller.is_root() && !caller.in_group(inode.gid())) inode.set_mode(inode.mode() & ~kSetGid);
      stored = !list.is_minimal();
    }
  }
  if (stored && !exists) {
    KINTSUGI_ASSIGN(const std::vector<std::string> names, list_xattrs(transaction, id));
    size_t bytes = name.size() + 1;
    for (const std::string& other : names)
      bytes += other.size() + 1;
    if (bytes > kMaxXattrNamesBytes) return {Code::kNoSpace, "has too many attributes"};
  }
  if (stored) {
    transaction.put(key, request.value());
    inode.set_has_xattrs(true);
  } else {
    transaction.remove(key);
  }
  transaction.put_message(keys::inode(id), inode);
  return {};
}

Result<std::vector<std::string>> Inodes::list_xattrs(const Transaction& transaction, InodeId id) {
  KINTSUGI_ASSIGN(const proto::StoredInode inode, find(transaction, id));
  std::vector<std::string> names;
  if (!inode.has_xattrs()) return names;
  transaction.scan(keys::all(keys::Kind::kXattr, id.value), [&](std::string_view key, std::string_view) {
    names.emplace_back(keys::name_of_xattr(key));
    return true;
  });
  return names;
}

}  // namespace kintsugi::metaserver
