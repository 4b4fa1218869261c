#include "metaserver/namespace/namespace.h"

#include "metaserver/namespace/ops/links.h"
#include "metaserver/namespace/ops/make.h"
#include "metaserver/namespace/ops/move.h"
#include "metaserver/namespace/path.h"
#include "metaserver/namespace/reclaim.h"

namespace kintsugi::metaserver {
namespace {

constexpr uint32_t kDefaultDirectoryMode = 0755;
constexpr uint32_t kDefaultFileMode = 0644;

Status about(std::string_view path, Code code, std::string_view what) {
  return {code, std::string(path) + " " + std::string(what)};
}

Status about(const Path& path, const Status& status) {
  return status.ok() ? status : about(path_text(path.names), status.code(), status.message());
}

/// Says which of two paths an error of a move is about.
bool about_target(Code code) {
  return code == Code::kAlreadyExists || code == Code::kIsDirectory || code == Code::kNotDirectory ||
         code == Code::kNotEmpty;
}

}  // namespace

void Namespace::format(Transaction& transaction, const std::string& policy, uint32_t uid,
                       uint32_t gid) const {
  proto::StoredInode root = inodes_.fresh(proto::Attributes::DIRECTORY, kDefaultDirectoryMode);
  root.set_uid(uid);
  root.set_gid(gid);
  root.set_policy(policy);
  root.set_parent(kRootInode.value);
  transaction.put_message(keys::inode(kRootInode), root);
  adjust_totals(transaction, 0, 1, 0);
}

Result<proto::Attributes> Namespace::stat(const Reader& reader, std::string_view text) const {
  KINTSUGI_ASSIGN(const Path path, Path::parse(text));
  KINTSUGI_ASSIGN(const Entry entry, walk(reader, path.names));
  return to_attributes(entry.id, load_inode(reader, entry.id));
}

Result<proto::ListResponse> Namespace::list(const Transaction& transaction, std::string_view text,
                                            std::string_view after, uint32_t limit) const {
  KINTSUGI_ASSIGN(const Path path, Path::parse(text));
  if (after.size() > kMaxNameBytes)
    return Status{Code::kInvalidArgument, "the name to continue after is too long"};
  KINTSUGI_ASSIGN(const Entry entry, walk(transaction.store(), path.names));
  if (entry.is_directory()) return Inodes::list(transaction, entry.id, after, limit, false);
  proto::ListResponse response;
  *response.mutable_self() = to_attributes(entry.id, load_inode(transaction.store(), entry.id));
  return response;
}

Status Namespace::make_directory(Transaction& transaction, std::string_view text, bool parents, uint32_t mode,
                                 const Caller& caller) {
  KINTSUGI_ASSIGN(const Path path, Path::parse(text));
  NewInode made;
  made.type = proto::Attributes::DIRECTORY;
  made.mode = mode == 0 ? kDefaultDirectoryMode : mode;
  if (path.is_root()) return parents ? Status{} : about("/", Code::kAlreadyExists, "exists already");
  Entry at{kRootInode, proto::Attributes::DIRECTORY};
  bool making = false;
  for (size_t i = 0; i < path.names.size(); ++i) {
    const auto upto = std::span(path.names).first(i + 1);
    const bool last = i + 1 == path.names.size();
    const std::optional<Entry> next =
        making ? std::nullopt : find_entry(transaction.store(), at.id, path.names[i]);
    if (next && last && !(parents && next->is_directory())) {
      return about(path_text(upto), Code::kAlreadyExists, "exists already");
    }
    if (next && !next->is_directory())
      return about(path_text(upto), Code::kNotDirectory, "is not a directory");
    if (!next && !last && !parents) return about(path_text(upto), Code::kNotFound, "does not exist");
    if (next) {
      at = *next;
      continue;
    }
    const Result<InodeId> id = ops::make(inodes_, transaction, caller, at.id, path.names[i], made);
    if (!id) return about(path_text(upto), id.error().code(), id.error().message());
    at.id = *id;
    making = true;
  }
  return {};
}

Status Namespace::remove(Transaction& transaction, std::string_view text, bool recursive, FreedStripes& freed,
                         const Caller& caller) {
  KINTSUGI_ASSIGN(const Path path, Path::parse(text));
  if (path.is_root()) return about("/", Code::kInvalidArgument, "cannot be removed");
  KINTSUGI_ASSIGN(const InodeId parent, walk_to_parent(transaction.store(), path));
  const ops::Unlink what{.parent = parent, .name = path.names.back(), .recursive = recursive, .held = held_};
  return about(path, ops::unlink(inodes_, transaction, caller, what, freed));
}

Status Namespace::rename(Transaction& transaction, std::string_view from_text, std::string_view to_text,
                         bool replace, FreedStripes& freed, const Caller& caller) {
  KINTSUGI_ASSIGN(const Path from, Path::parse(from_text));
  KINTSUGI_ASSIGN(const Path to, Path::parse(to_text));
  if (from.is_root() || to.is_root()) return about("/", Code::kInvalidArgument, "cannot be renamed");
  const Reader& reader = transaction.store();
  KINTSUGI_ASSIGN(const InodeId from_parent, walk_to_parent(reader, from));
  if (!find_entry(reader, from_parent, from.names.back()))
    return about(path_text(from.names), Code::kNotFound, "does not exist");
  KINTSUGI_ASSIGN(const InodeId to_parent, walk_to_parent(reader, to));
  const ops::Move what{from_parent,
                       from.names.back(),
                       to_parent,
                       to.names.back(),
                       replace ? ops::Target::kReplace : ops::Target::kMustNotExist,
                       held_};
  const Status moved = ops::move(inodes_, transaction, caller, what, freed);
  return about(about_target(moved.code()) ? to : from, moved);
}

Status Namespace::take_over(const Transaction& transaction, const Caller& caller, InodeId parent,
                            const std::optional<Entry>& target, NewFile& file) {
  if (caller.is_root()) return {};
  KINTSUGI_ASSIGN(const proto::StoredInode directory, Inodes::find(transaction, parent));
  KINTSUGI_TRY(check_access(transaction, caller, parent, directory, kMayWrite | kMayExecute));
  if (target) {
    KINTSUGI_ASSIGN(const proto::StoredInode old, Inodes::find(transaction, target->id));
    KINTSUGI_TRY(check_sticky(caller, directory, old));
  }
  file.uid = caller.uid;
  if (!caller.in_group(file.gid)) file.gid = caller.gid;
  if ((directory.mode() & kSetGroupId) != 0) file.gid = directory.gid();
  if (!caller.in_group(file.gid)) file.mode &= ~kSetGroupId;
  return {};
}

Result<proto::Attributes> Namespace::put_file(Transaction& transaction, std::string_view text, NewFile file,
                                              bool replace, FreedStripes& freed, const Caller& caller) {
  KINTSUGI_ASSIGN(const Path path, Path::parse(text));
  if (path.is_root()) return about("/", Code::kIsDirectory, "is a directory");
  KINTSUGI_ASSIGN(const InodeId parent, walk_to_parent(transaction.store(), path));
  const std::optional<Entry> target = find_entry(transaction.store(), parent, path.names.back());
  KINTSUGI_TRY(about(path, take_over(transaction, caller, parent, target, file)));
  KINTSUGI_ASSIGN(const uint64_t id, inode_ids_.take());
  const Entry made{InodeId{id}, proto::Attributes::FILE};
  if (target && !replace) return about(path_text(path.names), Code::kAlreadyExists, "exists already");
  if (target) KINTSUGI_TRY(about(path, ops::check_replaceable(transaction, *target, made)));
  if (!target) KINTSUGI_TRY(about(path, inodes_.check_new_name(parent, path.names.back())));

  proto::StoredInode inode = inodes_.fresh(proto::Attributes::FILE, file.mode ? file.mode : kDefaultFileMode);
  inode.set_uid(file.uid);
  inode.set_gid(file.gid);
  inode.set_size(file.size);
  if (file.modified_ns != 0) inode.set_modified_ns(file.modified_ns);
  inode.set_policy(std::move(file.policy));
  inode.set_upload_id(file.upload_id);
  ExtentWriter writer(transaction, made.id);
  for (const proto::Extent& extent : file.extents)
    writer.put(extent);
  writer.finish(inode, freed);
  proto::Attributes attributes = to_attributes(made.id, inode);
  inodes_.put(transaction, parent, path.names.back(), made.id, std::move(inode));
  if (target) inodes_.drop(transaction, *target, held_, freed);
  return attributes;
}

}  // namespace kintsugi::metaserver
