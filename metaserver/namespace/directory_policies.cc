#include "metaserver/namespace/directory_policies.h"

#include "metaserver/namespace/ancestors.h"
#include "metaserver/namespace/change_time.h"

namespace kintsugi::metaserver {
Status DirectoryPolicies::set(Transaction& transaction, std::string_view text, const std::string& policy) {
  KINTSUGI_ASSIGN(const Path path, Path::parse(text));
  KINTSUGI_ASSIGN(const Entry entry, walk(transaction.store(), path.names));
  if (!entry.is_directory()) {
    return Status{Code::kNotDirectory,
                  path_text(path.names) + " is a file: its code was fixed when it was written"};
  }
  proto::StoredInode inode = load_inode(transaction.store(), entry.id);
  inode.set_policy(policy);
  note_change(inode, clock_.wall_now().time_since_epoch().count());
  transaction.put_message(keys::inode(entry.id), inode);
  if (!policy.empty()) transaction.put(keys::policy(policy), "");
  return {};
}

std::string DirectoryPolicies::default_policy(const Reader& reader) const {
  const std::string root = load_inode(reader, kRootInode).policy();
  return root.empty() ? fallback_ : root;
}

proto::GetPolicyResponse DirectoryPolicies::nearest(const Reader& reader, const Path& path,
                                                    const std::vector<InodeId>& trail) const {
  proto::GetPolicyResponse response;
  response.set_policy(fallback_);
  for (size_t depth = trail.size(); depth-- > 0;) {
    const std::string policy = load_inode(reader, trail[depth]).policy();
    if (policy.empty()) continue;
    response.set_policy(policy);
    response.set_inherited_from(path_text(std::span(path.names).first(depth)));
    break;
  }
  return response;
}

std::string DirectoryPolicies::of_directory(const Reader& reader, InodeId directory) const {
  std::string policy;
  walk_up(reader, directory, [&](InodeId, const proto::StoredInode& inode) {
    policy = inode.policy();
    return policy.empty();
  });
  return policy.empty() ? fallback_ : policy;
}

Result<proto::GetPolicyResponse> DirectoryPolicies::of(const Reader& reader, std::string_view text) const {
  KINTSUGI_ASSIGN(const Path path, Path::parse(text));
  std::vector<InodeId> trail;
  if (const auto found = walk(reader, path.names, &trail); !found) return found.error();
  return nearest(reader, path, trail);
}

Result<proto::GetPolicyResponse> DirectoryPolicies::for_new_file(const Reader& reader,
                                                                 std::string_view text) const {
  KINTSUGI_ASSIGN(const Path path, Path::parse(text));
  if (path.is_root()) return Status{Code::kIsDirectory, "/ is a directory"};
  std::vector<InodeId> trail;
  KINTSUGI_ASSIGN(const InodeId parent, walk_to_parent(reader, path, &trail));
  KINTSUGI_ASSERT(parent == trail.back());
  return nearest(reader, path, trail);
}

}  // namespace kintsugi::metaserver
