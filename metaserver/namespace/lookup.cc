#include "metaserver/namespace/lookup.h"

#include <fmt/format.h>

namespace kintsugi::metaserver {

std::string path_text(std::span<const std::string_view> names) {
  std::string text;
  for (std::string_view name : names)
    text.append("/").append(name);
  return text.empty() ? "/" : text;
}

std::optional<Entry> find_entry(const Reader& reader, InodeId parent, std::string_view name) {
  const auto stored = reader.get_message<proto::StoredDirectoryEntry>(keys::entry(parent, name));
  if (!stored) return std::nullopt;
  return Entry{InodeId{stored->inode()}, stored->type() == proto::Attributes::DIRECTORY};
}

Result<Entry> walk(const Reader& reader, std::span<const std::string_view> names,
                   std::vector<InodeId>* trail) {
  Entry at{kRootInode, true};
  if (trail) trail->push_back(at.id);
  for (size_t i = 0; i < names.size(); ++i) {
    if (!at.is_directory)
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
  if (!parent.is_directory) return Status{Code::kNotDirectory, path_text(names) + " is not a directory"};
  return parent.id;
}

proto::StoredInode load_inode(const Reader& reader, InodeId id) {
  auto inode = reader.get_message<proto::StoredInode>(keys::inode(id));
  KINTSUGI_ASSERT(inode);
  return std::move(*inode);
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
  return attributes;
}

}  // namespace kintsugi::metaserver
