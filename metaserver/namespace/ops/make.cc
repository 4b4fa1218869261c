#include "metaserver/namespace/ops/make.h"

#include "metaserver/namespace/reclaim.h"

namespace kintsugi::metaserver {

NewInode NewInode::from(const proto::MakeInodeRequest& request) {
  NewInode wanted;
  wanted.type = request.type();
  wanted.mode = request.mode();
  wanted.umask = request.umask();
  wanted.device = request.device();
  wanted.target = request.target();
  return wanted;
}

namespace ops {
namespace {

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

Result<InodeId> add(const Inodes& inodes, Transaction& transaction, const Caller& caller, InodeId parent,
                    const NewInode& made, bool nameless) {
  KINTSUGI_ASSIGN(const proto::StoredInode directory, Inodes::changed(transaction, caller, parent));
  if (made.target.size() > kMaxTargetBytes) return Status{Code::kNameTooLong, "points to too long a path"};
  InodeId id = made.id;
  if (!id) {
    KINTSUGI_ASSIGN(const uint64_t taken, inodes.ids().take());
    id = InodeId{taken};
  }
  const auto by_rules = posix::new_inode(caller, {.group = directory.gid(), .mode = directory.mode()},
                                         made.mode, made.type == proto::Attributes::DIRECTORY);
  proto::StoredInode inode = inodes.fresh(made.type, by_rules.mode);
  if (made.at_ns != 0 && made.at_ns < inode.modified_ns()) {
    inode.set_modified_ns(made.at_ns);
    inode.set_changed_ns(made.at_ns);
    inode.set_accessed_ns(made.at_ns);
  }
  inode.set_uid(caller.uid);
  inode.set_gid(by_rules.group);
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

}  // namespace

Result<InodeId> make(const Inodes& inodes, Transaction& transaction, const Caller& caller, InodeId parent,
                     std::string_view name, const NewInode& made) {
  KINTSUGI_TRY(check_name(name));
  if (const auto directory = Inodes::searched(transaction, caller, parent); !directory)
    return directory.error();
  if (find_entry(transaction, parent, name)) return Status{Code::kAlreadyExists, "exists already"};
  KINTSUGI_TRY(inodes.check_new_name(parent, name));
  KINTSUGI_ASSIGN(const InodeId id, add(inodes, transaction, caller, parent, made, false));
  inodes.put(transaction, parent, name, id, *transaction.get_message<proto::StoredInode>(keys::inode(id)));
  return id;
}

Result<InodeId> make_nameless(const Inodes& inodes, Transaction& transaction, const Caller& caller,
                              InodeId parent, const NewInode& made) {
  if (made.type != proto::Attributes::FILE) return Status{Code::kInvalidArgument, "must be a file"};
  KINTSUGI_ASSIGN(const InodeId id, add(inodes, transaction, caller, parent, made, true));
  transaction.put(keys::orphan(id), std::string(kHeldOrphan));
  adjust_totals(transaction, 1, 0, 0);
  return id;
}

}  // namespace ops
}  // namespace kintsugi::metaserver
