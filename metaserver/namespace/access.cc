#include "metaserver/namespace/access.h"

namespace kintsugi::metaserver {

Status check_access(const Transaction& transaction, const Caller& caller, InodeId id,
                    const proto::StoredInode& inode, uint32_t wanted) {
  const posix::Permissions permissions{inode.uid(), inode.gid(), inode.mode(), is_directory(inode)};
  std::optional<std::string> list;
  if (inode.has_xattrs() && permissions.ask_the_list(caller))
    list = transaction.get(keys::xattr(id, kAccessList));
  if (permissions.allow(caller, wanted, list)) return {};
  return {Code::kAccessDenied, "may not be accessed so by this user"};
}

Status check_root(const Caller& caller) {
  if (caller.is_root()) return {};
  return {Code::kNotPermitted, "only root may do this"};
}

Status check_sticky(const Caller& caller, const proto::StoredInode& directory,
                    const proto::StoredInode& entry) {
  if ((directory.mode() & kSticky) == 0 || caller.is_root()) return {};
  if (caller.uid == directory.uid() || caller.uid == entry.uid()) return {};
  return {Code::kNotPermitted, "is in a directory where only its owner may move it"};
}

}  // namespace kintsugi::metaserver
