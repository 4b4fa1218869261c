#include "metaserver/namespace/namespace.h"

#include <algorithm>

#include "metaserver/namespace/reclaim.h"

namespace kintsugi::metaserver {
namespace {

constexpr uint32_t kPermissionBits = 07777;
constexpr uint32_t kDefaultDirectoryMode = 0755;
constexpr uint32_t kDefaultFileMode = 0644;

proto::StoredInode new_inode(proto::Attributes::Type type, uint32_t mode, int64_t now_ns) {
  proto::StoredInode inode;
  inode.set_type(type);
  inode.set_mode(mode & kPermissionBits);
  inode.set_links(type == proto::Attributes::DIRECTORY ? 2 : 1);
  inode.set_modified_ns(now_ns);
  inode.set_changed_ns(now_ns);
  return inode;
}

void put_entry(Transaction& transaction, InodeId parent, std::string_view name, Entry entry) {
  proto::StoredDirectoryEntry stored;
  stored.set_inode(entry.id.value);
  stored.set_type(entry.is_directory ? proto::Attributes::DIRECTORY : proto::Attributes::FILE);
  transaction.put_message(keys::entry(parent, name), stored);
}

Status about(std::string_view path, Code code, std::string_view what) {
  return {code, std::string(path) + " " + std::string(what)};
}

/// Ok when `target`, which is there already, may give way to what `moved` is.
Status check_replaceable(const Reader& reader, std::string_view to, Entry target, Entry moved, bool replace) {
  if (!replace) return about(to, Code::kAlreadyExists, "exists already");
  if (target.is_directory && !moved.is_directory) return about(to, Code::kIsDirectory, "is a directory");
  if (!target.is_directory && moved.is_directory) return about(to, Code::kNotDirectory, "is not a directory");
  if (target.is_directory && !is_empty_directory(reader, target.id))
    return about(to, Code::kNotEmpty, "is not empty");
  return {};
}

}  // namespace

int64_t Namespace::now_ns() const {
  return clock_.wall_now().time_since_epoch().count();
}

void Namespace::format(Transaction& transaction, const std::string& policy) const {
  proto::StoredInode root = new_inode(proto::Attributes::DIRECTORY, kDefaultDirectoryMode, now_ns());
  root.set_policy(policy);
  transaction.put_message(keys::inode(kRootInode), root);
  adjust_totals(transaction, 0, 1, 0);
}

Result<proto::Attributes> Namespace::stat(const Reader& reader, std::string_view text) const {
  KINTSUGI_ASSIGN(const Path path, Path::parse(text));
  KINTSUGI_ASSIGN(const Entry entry, walk(reader, path.names));
  return to_attributes(entry.id, load_inode(reader, entry.id));
}

Result<proto::ListResponse> Namespace::list(const Reader& reader, std::string_view text,
                                            std::string_view after, uint32_t limit) const {
  KINTSUGI_ASSIGN(const Path path, Path::parse(text));
  if (after.size() > kMaxNameBytes)
    return Status{Code::kInvalidArgument, "the name to continue after is too long"};
  if (limit == 0) limit = kDefaultListEntries;
  limit = std::min(limit, kMaxListEntries);
  KINTSUGI_ASSIGN(const Entry entry, walk(reader, path.names));
  proto::ListResponse response;
  *response.mutable_self() = to_attributes(entry.id, load_inode(reader, entry.id));
  if (!entry.is_directory) return response;
  reader.scan(keys::entries(entry.id, after), [&](std::string_view key, std::string_view value) {
    if (static_cast<uint32_t>(response.entries_size()) == limit) {
      response.set_more(true);
      return false;
    }
    const InodeId child{Reader::parse<proto::StoredDirectoryEntry>(value).inode()};
    proto::DirectoryEntry* listed = response.add_entries();
    listed->set_name(std::string(keys::name_of_entry(key)));
    *listed->mutable_attributes() = to_attributes(child, load_inode(reader, child));
    return true;
  });
  return response;
}

void Namespace::touch(Transaction& transaction, InodeId directory, int link_change) {
  auto inode = transaction.get_message<proto::StoredInode>(keys::inode(directory));
  KINTSUGI_ASSERT(inode);
  inode->set_links(inode->links() + static_cast<uint32_t>(link_change));
  inode->set_modified_ns(now_ns());
  inode->set_changed_ns(now_ns());
  transaction.put_message(keys::inode(directory), *inode);
}

Result<InodeId> Namespace::add_directory(Transaction& transaction, InodeId parent, std::string_view name,
                                         uint32_t mode) {
  KINTSUGI_ASSIGN(const uint64_t id, inode_ids_.take());
  const InodeId made{id};
  transaction.put_message(keys::inode(made), new_inode(proto::Attributes::DIRECTORY, mode, now_ns()));
  put_entry(transaction, parent, name, {made, true});
  touch(transaction, parent, +1);
  return made;
}

Status Namespace::make_directory(Transaction& transaction, std::string_view text, bool parents,
                                 uint32_t mode) {
  KINTSUGI_ASSIGN(const Path path, Path::parse(text));
  if (mode == 0) mode = kDefaultDirectoryMode;
  if (path.is_root()) return parents ? Status{} : about("/", Code::kAlreadyExists, "exists already");
  Entry at{kRootInode, true};
  int64_t made = 0;
  for (size_t i = 0; i < path.names.size(); ++i) {
    const auto upto = std::span(path.names).first(i + 1);
    const bool last = i + 1 == path.names.size();
    const std::optional<Entry> next =
        made > 0 ? std::nullopt : find_entry(transaction.store(), at.id, path.names[i]);
    if (next && last && !(parents && next->is_directory)) {
      return about(path_text(upto), Code::kAlreadyExists, "exists already");
    }
    if (next && !next->is_directory) return about(path_text(upto), Code::kNotDirectory, "is not a directory");
    if (!next && !last && !parents) return about(path_text(upto), Code::kNotFound, "does not exist");
    if (next) {
      at = *next;
      continue;
    }
    KINTSUGI_ASSIGN(const InodeId id, add_directory(transaction, at.id, path.names[i], mode));
    at = {id, true};
    ++made;
  }
  if (made > 0) adjust_totals(transaction, 0, made, 0);
  return {};
}

void Namespace::unlink(Transaction& transaction, Entry entry, FreedStripes& freed) {
  unlink_inode(transaction, entry, kMaxStripesFreedAtOnce, freed);
}

Status Namespace::remove(Transaction& transaction, std::string_view text, bool recursive,
                         FreedStripes& freed) {
  KINTSUGI_ASSIGN(const Path path, Path::parse(text));
  if (path.is_root()) return about("/", Code::kInvalidArgument, "cannot be removed");
  KINTSUGI_ASSIGN(const InodeId parent, walk_to_parent(transaction.store(), path));
  const std::optional<Entry> entry = find_entry(transaction.store(), parent, path.names.back());
  if (!entry) return about(path_text(path.names), Code::kNotFound, "does not exist");
  if (entry->is_directory && !recursive && !is_empty_directory(transaction.store(), entry->id)) {
    return about(path_text(path.names), Code::kNotEmpty, "is not empty");
  }
  transaction.remove(keys::entry(parent, path.names.back()));
  touch(transaction, parent, entry->is_directory ? -1 : 0);
  unlink(transaction, *entry, freed);
  return {};
}

Status Namespace::rename(Transaction& transaction, std::string_view from_text, std::string_view to_text,
                         bool replace, FreedStripes& freed) {
  KINTSUGI_ASSIGN(const Path from, Path::parse(from_text));
  KINTSUGI_ASSIGN(const Path to, Path::parse(to_text));
  if (from.is_root() || to.is_root()) return about("/", Code::kInvalidArgument, "cannot be renamed");
  const Reader& reader = transaction.store();
  KINTSUGI_ASSIGN(const InodeId from_parent, walk_to_parent(reader, from));
  const std::optional<Entry> moved = find_entry(reader, from_parent, from.names.back());
  if (!moved) return about(path_text(from.names), Code::kNotFound, "does not exist");
  std::vector<InodeId> trail;
  KINTSUGI_ASSIGN(const InodeId to_parent, walk_to_parent(reader, to, &trail));
  if (std::find(trail.begin(), trail.end(), moved->id) != trail.end()) {
    return about(path_text(from.names), Code::kInvalidArgument, "cannot be moved into itself");
  }
  const std::optional<Entry> target = find_entry(reader, to_parent, to.names.back());
  // Both names are one entry: there are no hard links.
  if (target && target->id == moved->id) return {};
  if (target) KINTSUGI_TRY(check_replaceable(reader, path_text(to.names), *target, *moved, replace));

  transaction.remove(keys::entry(from_parent, from.names.back()));
  put_entry(transaction, to_parent, to.names.back(), *moved);
  touch(transaction, from_parent, moved->is_directory ? -1 : 0);
  const bool replaces_directory = target && target->is_directory;
  touch(transaction, to_parent, moved->is_directory && !replaces_directory ? +1 : 0);
  proto::StoredInode inode = load_inode(reader, moved->id);
  inode.set_changed_ns(now_ns());
  transaction.put_message(keys::inode(moved->id), inode);
  if (target) unlink(transaction, *target, freed);
  return {};
}

Result<proto::Attributes> Namespace::put_file(Transaction& transaction, std::string_view text, NewFile file,
                                              bool replace, FreedStripes& freed) {
  KINTSUGI_ASSIGN(const Path path, Path::parse(text));
  if (path.is_root()) return about("/", Code::kIsDirectory, "is a directory");
  KINTSUGI_ASSIGN(const InodeId parent, walk_to_parent(transaction.store(), path));
  const std::optional<Entry> target = find_entry(transaction.store(), parent, path.names.back());
  KINTSUGI_ASSIGN(const uint64_t id, inode_ids_.take());
  const Entry made{InodeId{id}, false};
  if (target)
    KINTSUGI_TRY(check_replaceable(transaction.store(), path_text(path.names), *target, made, replace));

  proto::StoredInode inode =
      new_inode(proto::Attributes::FILE, file.mode ? file.mode : kDefaultFileMode, now_ns());
  inode.set_uid(file.uid);
  inode.set_gid(file.gid);
  inode.set_size(file.size);
  inode.set_stored_bytes(file.stored_bytes);
  if (file.modified_ns != 0) inode.set_modified_ns(file.modified_ns);
  inode.set_policy(std::move(file.policy));
  inode.set_upload_id(file.upload_id);
  transaction.put_message(keys::inode(made.id), inode);
  if (file.extents.extents_size() > 0) transaction.put_message(keys::extents(made.id), file.extents);
  put_entry(transaction, parent, path.names.back(), made);
  touch(transaction, parent, 0);
  adjust_totals(transaction, 1, 0, 0);
  if (target) unlink(transaction, *target, freed);
  return to_attributes(made.id, inode);
}

}  // namespace kintsugi::metaserver
