#include "metaserver/namespace/ops/xattrs.h"

#include "metaserver/namespace/change_time.h"

namespace kintsugi::metaserver::ops {
namespace {

constexpr size_t kMaxXattrBytes = 64 << 10, kMaxXattrNamesBytes = 64 << 10;

/// What comes before the first dot of an attribute's name, and says who may change it.
enum class Space : uint8_t { kUser, kTrusted, kSecurity, kAccessList, kDefaultList, kNameless, kNone };

Space space_of(std::string_view name) {
  if (name == "user." || name == "trusted." || name == "security.") return Space::kNameless;
  if (name.starts_with("user.")) return Space::kUser;
  if (name.starts_with("trusted.")) return Space::kTrusted;
  if (name.starts_with("security.")) return Space::kSecurity;
  if (name == kAccessList) return Space::kAccessList;
  if (name == kDefaultList) return Space::kDefaultList;
  return Space::kNone;
}

bool is_access_list(std::string_view name) {
  return name == kAccessList || name == kDefaultList;
}

/// Ok when an attribute may have this name. kInvalidArgument, kNotSupported.
Status check_xattr_name(std::string_view name) {
  switch (space_of(name)) {
    case Space::kNameless: return {Code::kInvalidArgument, "cannot have an attribute without a name"};
    case Space::kNone: return {Code::kNotSupported, "cannot have an attribute of this name"};
    default: return {};
  }
}

Status check_xattr_change(const Transaction& transaction, const Caller& caller, InodeId id,
                          const proto::StoredInode& inode, const proto::SetXattrRequest& request) {
  const std::string_view name = request.name();
  const bool owner = caller.is_root() || caller.uid == inode.uid();
  const Status not_permitted{Code::kNotPermitted, "may not have this attribute changed by this user"};
  switch (space_of(name)) {
    case Space::kUser:
      if (inode.type() != proto::Attributes::FILE && !is_directory(inode)) return not_permitted;
      if (is_directory(inode) && (inode.mode() & kSticky) != 0 && !owner) return not_permitted;
      return check_access(transaction, caller, id, inode, kMayWrite);
    case Space::kSecurity:
      // Whoever may change a file takes its capabilities away by that.
      if (request.remove() && name == kCapabilities &&
          (owner || check_access(transaction, caller, id, inode, kMayWrite).ok()))
        return {};
      return caller.is_root() ? Status{} : not_permitted;
    case Space::kTrusted: return caller.is_root() ? Status{} : not_permitted;
    case Space::kDefaultList:
      if (!is_directory(inode))
        return {Code::kAccessDenied, "is not a directory and has no default access list"};
      return owner ? Status{} : not_permitted;
    case Space::kAccessList:
      if (inode.type() == proto::Attributes::SYMLINK)
        return {Code::kNotSupported, "is a symbolic link and has no access list"};
      return owner ? Status{} : not_permitted;
    case Space::kNameless:
    case Space::kNone: break;
  }
  return check_xattr_name(name);
}

}  // namespace

Result<std::string> get_xattr(const Transaction& transaction, const Caller& caller, InodeId id,
                              std::string_view name) {
  KINTSUGI_ASSIGN(const proto::StoredInode inode, Inodes::find(transaction, id));
  KINTSUGI_TRY(check_xattr_name(name));
  const Space space = space_of(name);
  if (space == Space::kUser) KINTSUGI_TRY(check_access(transaction, caller, id, inode, kMayRead));
  const Status none{Code::kNoData, "has no such attribute"};
  if (space == Space::kTrusted && !caller.is_root()) return none;
  if (!inode.has_xattrs()) return none;
  auto value = transaction.get(keys::xattr(id, name));
  if (!value) return none;
  return std::move(*value);
}

Status set_xattr(const Inodes& inodes, Transaction& transaction, const Caller& caller,
                 const proto::SetXattrRequest& request) {
  const InodeId id{request.inode()};
  KINTSUGI_ASSIGN(proto::StoredInode inode, Inodes::find(transaction, id));
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
  note_change(inode, inodes.now_ns());
  bool stored = !request.remove();
  if (stored && is_access_list(name)) {
    KINTSUGI_ASSIGN(const AccessList list, AccessList::parse(request.value()));
    if (name == kAccessList) {
      inode.set_mode((inode.mode() & ~0777u) | list.mode());
      if (!caller.is_root() && !caller.in_group(inode.gid())) inode.set_mode(inode.mode() & ~kSetGroupId);
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

Result<std::vector<std::string>> list_xattrs(const Transaction& transaction, InodeId id) {
  KINTSUGI_ASSIGN(const proto::StoredInode inode, Inodes::find(transaction, id));
  std::vector<std::string> names;
  if (!inode.has_xattrs()) return names;
  transaction.scan(keys::all(keys::Kind::kXattr, id.value), [&](std::string_view key, std::string_view) {
    names.emplace_back(keys::name_of_xattr(key));
    return true;
  });
  return names;
}

}  // namespace kintsugi::metaserver::ops
