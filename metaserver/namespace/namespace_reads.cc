// The operations of Namespace that read, and the policies that directories hand down.
#include <algorithm>

#include "metaserver/namespace/namespace.h"

namespace kintsugi::metaserver {

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

Status Namespace::set_policy(Transaction& transaction, std::string_view text, const std::string& policy) {
  KINTSUGI_ASSIGN(const Path path, Path::parse(text));
  KINTSUGI_ASSIGN(const Entry entry, walk(transaction.store(), path.names));
  if (!entry.is_directory) {
    return Status{Code::kNotDirectory,
                  path_text(path.names) + " is a file: its code was fixed when it was written"};
  }
  proto::StoredInode inode = load_inode(transaction.store(), entry.id);
  inode.set_policy(policy);
  inode.set_changed_ns(now_ns());
  transaction.put_message(keys::inode(entry.id), inode);
  if (!policy.empty()) transaction.put(keys::policy(policy), "");
  return {};
}

std::string Namespace::default_policy(const Reader& reader) const {
  const std::string root = load_inode(reader, kRootInode).policy();
  return root.empty() ? default_policy_ : root;
}

proto::GetPolicyResponse Namespace::nearest_policy(const Reader& reader, const Path& path,
                                                   const std::vector<InodeId>& trail) const {
  proto::GetPolicyResponse response;
  response.set_policy(default_policy_);
  for (size_t depth = trail.size(); depth-- > 0;) {
    const std::string policy = load_inode(reader, trail[depth]).policy();
    if (policy.empty()) continue;
    response.set_policy(policy);
    response.set_inherited_from(path_text(std::span(path.names).first(depth)));
    break;
  }
  return response;
}

Result<proto::GetPolicyResponse> Namespace::policy_of(const Reader& reader, std::string_view text) const {
  KINTSUGI_ASSIGN(const Path path, Path::parse(text));
  std::vector<InodeId> trail;
  if (const auto found = walk(reader, path.names, &trail); !found) return found.error();
  return nearest_policy(reader, path, trail);
}

Result<proto::GetPolicyResponse> Namespace::policy_for_new_file(const Reader& reader,
                                                                std::string_view text) const {
  KINTSUGI_ASSIGN(const Path path, Path::parse(text));
  if (path.is_root()) return Status{Code::kIsDirectory, "/ is a directory"};
  std::vector<InodeId> trail;
  KINTSUGI_ASSIGN(const InodeId parent, walk_to_parent(reader, path, &trail));
  KINTSUGI_ASSERT(parent == trail.back());
  return nearest_policy(reader, path, trail);
}

}  // namespace kintsugi::metaserver
