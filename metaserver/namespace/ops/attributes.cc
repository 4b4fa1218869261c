#include "metaserver/namespace/ops/attributes.h"

#include "metaserver/namespace/change_time.h"
#include "metaserver/namespace/reclaim.h"

namespace kintsugi::metaserver::ops {
namespace {

using Request = proto::SetAttributesRequest;

Status not_permitted() {
  return {Code::kNotPermitted, "may be changed in this way by its owner only"};
}

bool owns(const Caller& caller, const proto::StoredInode& inode) {
  return caller.is_root() || caller.uid == inode.uid();
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

Status set_owner(Transaction& transaction, const Caller& caller, const Request& request,
                 proto::StoredInode& inode) {
  const bool other_user = request.has_uid() && request.uid() != inode.uid();
  const bool other_group = request.has_gid() && request.gid() != inode.gid();
  if (!owns(caller, inode) || (other_user && !caller.is_root())) return not_permitted();
  if (other_group && !caller.is_root() && !caller.in_group(request.gid())) return not_permitted();
  clear_privileges(transaction, InodeId{request.inode()}, inode, caller);
  if (request.has_uid()) inode.set_uid(request.uid());
  if (request.has_gid()) inode.set_gid(request.gid());
  return {};
}

/// `owner`: the caller owned it before anything was changed.
Status kill_privileges(Transaction& transaction, const Caller& caller, const Request& request, bool owner,
                       proto::StoredInode& inode) {
  const InodeId id{request.inode()};
  const uint32_t before = inode.mode();
  clear_privileges(transaction, id, inode, caller);
  // Who may write takes them away by that; somebody else would change the owner to what it is, and must own the file.
  const bool by_writing = request.has_size() || check_access(transaction, caller, id, inode, kMayWrite).ok();
  if (inode.mode() != before && !owner && !by_writing) return not_permitted();
  return {};
}

Status set_size(const Inodes& inodes, Transaction& transaction, const Request& request,
                proto::StoredInode& inode, FreedStripes& freed) {
  const InodeId id{request.inode()};
  const InodeId content = content_of(id, inode);
  const bool all = request.size() == 0 && count_extents(transaction.store(), content,
                                                        kMaxExtentsFreedAtOnce + 1) > kMaxExtentsFreedAtOnce;
  if (all) {
    KINTSUGI_TRY(leave_content(transaction, inodes.ids(), id, inode));
  } else if (request.size() < inode.size()) {
    ExtentWriter writer(transaction, content, inode.size());
    writer.clear(request.size(), UINT64_MAX);
    writer.finish(inode, freed);
  }
  inode.set_size(request.size());
  return {};
}

Status check_size(const Transaction& transaction, const Caller& caller, const Request& request,
                  const proto::StoredInode& inode) {
  if (is_directory(inode)) return {Code::kIsDirectory, "is a directory"};
  if (inode.type() != proto::Attributes::FILE) return {Code::kInvalidArgument, "has no size"};
  if (request.size() > kMaxFileBytes) return {Code::kFileTooLarge, "cannot be so large"};
  if (request.opened_for_writing()) return {};
  return check_access(transaction, caller, InodeId{request.inode()}, inode, kMayWrite);
}

}  // namespace

Status set_attributes(const Inodes& inodes, Transaction& transaction, const Caller& caller,
                      const Request& request, FreedStripes& freed) {
  const InodeId id{request.inode()};
  KINTSUGI_ASSIGN(proto::StoredInode inode, Inodes::find(transaction, id));
  const bool owner = owns(caller, inode);
  const bool explicit_times = request.has_modified_ns() || request.has_accessed_ns();
  if ((request.has_mode() || explicit_times) && !owner) return not_permitted();
  if ((request.modified_now() || request.accessed_now()) && !owner)
    KINTSUGI_TRY(check_access(transaction, caller, id, inode, kMayWrite));
  if (request.has_uid() || request.has_gid()) KINTSUGI_TRY(set_owner(transaction, caller, request, inode));
  if (request.kill_privileges()) KINTSUGI_TRY(kill_privileges(transaction, caller, request, owner, inode));
  if (request.has_mode()) {
    uint32_t mode = request.mode() & kPermissionBits;
    if (!caller.is_root() && !caller.in_group(inode.gid())) mode &= ~kSetGroupId;
    set_mode(transaction, id, inode, mode);
  }
  const int64_t now = inodes.now_ns();
  if (request.has_size()) {
    KINTSUGI_TRY(check_size(transaction, caller, request, inode));
    KINTSUGI_TRY(set_size(inodes, transaction, request, inode, freed));
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

}  // namespace kintsugi::metaserver::ops
