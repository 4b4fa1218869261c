#include "metaserver/namespace/access.h"

namespace kintsugi::metaserver {

Status check_access(const Transaction& transaction, const Caller& caller, InodeId id,
                    const proto::StoredInode& inode, uint32_t wanted) {
  const posix::Permissions permissions{inode.uid(), inode.gid(), inode.mode(), is_directory(inode)};
  std::optional<std::string> list;
  if (inode.has_xattrs() && permissions.ask_the_list(caller))
    list = transaction.get(keys::xattr(id, kAccessList));
  if (permissions.allow(caller, wanted, list)) return {};
  return {Code::kAccessDenied, "denies permission to this user"};
}

Status check_root(const Caller& caller) {
  if (caller.is_root()) return {};
  return {Code::kNotPermitted, "only root may do this"};
}

Status check_sticky(const Caller& caller, const proto::StoredInode& directory,
                    const proto::StoredInode& entry) {
  if ((directory.mode() & kSticky) == 0 || caller.is_root()) return {};
  if (caller.uid == directory.uid() || caller.uid == entry.uid()) return {};
  return {Code::kNotPermitted,
          "is in a sticky directory: only its owner or the directory's may move or remove it"};
}

void clear_privileges(Transaction& transaction, InodeId id, proto::StoredInode& inode, const Caller& caller) {
  if (is_directory(inode)) return;
  if (inode.has_xattrs() && transaction.get(keys::xattr(id, kCapabilities)))
    transaction.remove(keys::xattr(id, kCapabilities));
  uint32_t mode = inode.mode() & ~kSetUserId;
  // Without the right to execute, the bit stands for locks that keep others out, which only the group's members keep.
  if ((mode & posix::kGroupExecutes) != 0 || (!caller.is_root() && !caller.in_group(inode.gid())))
    mode &= ~kSetGroupId;
  inode.set_mode(mode);
}

}  // namespace kintsugi::metaserver
