#include "metaserver/namespace/inodes.h"

#include <algorithm>

#include "metaserver/namespace/change_time.h"
#include "metaserver/namespace/path.h"
#include "metaserver/namespace/reclaim.h"

namespace kintsugi::metaserver {

Status check_name(std::string_view name) {
  if (name.size() > kMaxNameBytes) return {Code::kNameTooLong, "is too long for a name"};
  if (name.empty() || name == "." || name == ".." || name.find('/') != name.npos ||
      name.find('\0') != name.npos)
    return {Code::kInvalidArgument, "is no name"};
  return {};
}

void put_entry(Transaction& transaction, InodeId parent, std::string_view name, Entry entry) {
  proto::StoredDirectoryEntry stored;
  stored.set_inode(entry.id.value);
  stored.set_type(entry.type);
  transaction.put_message(keys::entry(parent, name), stored);
}

Result<proto::StoredInode> Inodes::find(const Transaction& transaction, InodeId id) {
  // Whoever reads has looked it up in the snapshot (places.h).
  if (SnapshotInode::is(id)) return Status{Code::kReadOnly, "is in a snapshot"};
  auto inode = transaction.get_message<proto::StoredInode>(keys::inode(id));
  if (!inode) return Status{Code::kStale, "does not exist any more"};
  return std::move(*inode);
}

Result<proto::StoredInode> Inodes::searched(const Transaction& transaction, const Caller& caller,
                                            InodeId id) {
  KINTSUGI_ASSIGN(proto::StoredInode directory, find(transaction, id));
  if (!is_directory(directory)) return Status{Code::kNotDirectory, "is not in a directory"};
  KINTSUGI_TRY(check_access(transaction, caller, id, directory, kMayExecute));
  return directory;
}

Result<proto::StoredInode> Inodes::changed(const Transaction& transaction, const Caller& caller, InodeId id) {
  KINTSUGI_ASSIGN(proto::StoredInode directory, searched(transaction, caller, id));
  if (directory.links() == 0) return Status{Code::kNotFound, "is in a directory that was removed"};
  KINTSUGI_TRY(check_access(transaction, caller, id, directory, kMayWrite));
  return directory;
}

Result<InodeId> Inodes::lookup(const Transaction& transaction, const Caller& caller, InodeId parent,
                               std::string_view name) {
  KINTSUGI_ASSIGN(const proto::StoredInode directory, searched(transaction, caller, parent));
  if (name == ".") return parent;
  if (name == "..") return parent == kRootInode ? parent : InodeId{directory.parent()};
  KINTSUGI_TRY(check_name(name));
  const std::optional<Entry> entry = find_entry(transaction, parent, name);
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

void Inodes::drop(Transaction& transaction, Entry entry, const std::function<bool(InodeId)>& held,
                  FreedStripes& freed, std::optional<bool> is_empty) const {
  drop_name(transaction, entry, {kMaxExtentsFreedAtOnce, now_ns(), held, is_empty}, freed);
}

}  // namespace kintsugi::metaserver
