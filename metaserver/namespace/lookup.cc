#include "metaserver/namespace/lookup.h"

#include <fmt/format.h>

namespace kintsugi::metaserver {

std::string path_text(std::span<const std::string_view> names) {
  std::string text;
  for (std::string_view name : names)
    text.append("/").append(name);
  return text.empty() ? "/" : text;
}

namespace {

template <class View>
std::optional<Entry> entry_of(const View& view, InodeId parent, std::string_view name) {
  const auto stored = view.template get_message<proto::StoredDirectoryEntry>(keys::entry(parent, name));
  if (!stored) return std::nullopt;
  return Entry{InodeId{stored->inode()}, static_cast<proto::Attributes::Type>(stored->type())};
}

}  // namespace

std::optional<Entry> find_entry(const Reader& reader, InodeId parent, std::string_view name) {
  return entry_of(reader, parent, name);
}

std::optional<Entry> find_entry(const Transaction& transaction, InodeId parent, std::string_view name) {
  return entry_of(transaction, parent, name);
}

Result<Entry> walk(const Reader& reader, std::span<const std::string_view> names,
                   std::vector<InodeId>* trail) {
  Entry at{kRootInode, proto::Attributes::DIRECTORY};
  if (trail) trail->push_back(at.id);
  for (size_t i = 0; i < names.size(); ++i) {
    if (!at.is_directory())
      return Status{Code::kNotDirectory, path_text(names.first(i)) + " is not a directory"};
    const std::optional<Entry> next = find_entry(reader, at.id, names[i]);
    if (!next) return Status{Code::kNotFound, path_text(names.first(i + 1)) + " does not exist"};
    at = *next;
    if (trail) trail->push_back(at.id);
  }
  return at;
}

Result<InodeId> walk_to_parent(const Reader& reader, const Path& path, std::vector<InodeId>* trail) {
  KINTSUGI_ASSERT(!path.is_root());
  const auto names = std::span(path.names).first(path.names.size() - 1);
  KINTSUGI_ASSIGN(const Entry parent, walk(reader, names, trail));
  if (!parent.is_directory()) return Status{Code::kNotDirectory, path_text(names) + " is not a directory"};
  return parent.id;
}

proto::StoredInode load_inode(const Reader& reader, InodeId id) {
  auto inode = reader.get_message<proto::StoredInode>(keys::inode(id));
  KINTSUGI_ASSERT(inode);
  return std::move(*inode);
}

std::string path_of(const Reader& reader, InodeId directory, std::string_view known) {
  constexpr int kMaxNames = 256;
  constexpr size_t kMaxEntries = 10'000;
  if (const Result<Path> path = Path::parse(known)) {
    const Result<Entry> found = walk(reader, path->names);
    if (found && found->id == directory) return std::string(known);
  }
  const std::string by_number = fmt::format("inode {}", directory);
  std::string path;
  InodeId at = directory;
  for (int names = 0; at != kRootInode; ++names) {
    const auto inode = reader.get_message<proto::StoredInode>(keys::inode(at));
    if (!inode || inode->parent() == 0 || names == kMaxNames) return by_number;
    std::optional<std::string> name;
    size_t seen = 0;
    reader.scan(keys::entries(InodeId{inode->parent()}), [&](std::string_view key, std::string_view value) {
      if (Reader::parse<proto::StoredDirectoryEntry>(value).inode() == at.value)
        name = keys::name_of_entry(key);
      return !name && ++seen < kMaxEntries;
    });
    if (!name) return by_number;
    path = "/" + *name + path;
    at = InodeId{inode->parent()};
  }
  return path.empty() ? "/" : path;
}

proto::Attributes to_attributes(InodeId id, const proto::StoredInode& inode) {
  proto::Attributes attributes;
  attributes.set_inode(id.value);
  attributes.set_type(static_cast<proto::Attributes::Type>(inode.type()));
  attributes.set_mode(inode.mode());
  attributes.set_uid(inode.uid());
  attributes.set_gid(inode.gid());
  attributes.set_size(inode.size());
  attributes.set_links(inode.links());
  attributes.set_modified_ns(inode.modified_ns());
  attributes.set_changed_ns(inode.changed_ns());
  attributes.set_policy(inode.policy());
  attributes.set_accessed_ns(inode.accessed_ns());
  attributes.set_device(inode.device());
  attributes.set_target(inode.target());
  attributes.set_used_bytes(inode.used_bytes());
  attributes.set_has_xattrs(inode.has_xattrs());
  return attributes;
}

}  // namespace kintsugi::metaserver
