/// The operations of a mount on attributes of inodes, extended attributes too.
#pragma once

#include "client/lib/files/open_files.h"
#include "client/mount/cached_pages.h"
#include "client/mount/kernel/file_system.h"
#include "client/mount/kernel_beliefs.h"
#include "client/mount/last_known.h"
#include "client/mount/told_inodes.h"

namespace kintsugi::mount {

/// The operations are those of FileSystem.
class AttributeOperations {
 public:
  /// References outlive it. `root` is what is mounted.
  AttributeOperations(client::OpenFiles& files, KernelBeliefs& beliefs, ToldInodes& told, CachedPages& pages,
                      LastKnown& last_known, NodeId root)
      : files_(files), beliefs_(beliefs), told_(told), pages_(pages), last_known_(last_known), root_(root) {}

  asio::awaitable<Result<AttributesAnswer>> get_attributes(const Caller& caller, NodeId node);
  asio::awaitable<Result<AttributesAnswer>> set_attributes(const Caller& caller, NodeId node,
                                                           const AttributeChanges& changes);
  asio::awaitable<Result<std::string>> read_link(const Caller& caller, NodeId node);
  asio::awaitable<Status> set_xattr(const Caller& caller, NodeId node, std::string_view name,
                                    std::span<const std::byte> value, SetXattrFlags flags);
  asio::awaitable<Result<std::string>> get_xattr(const Caller& caller, NodeId node, std::string_view name);
  asio::awaitable<Result<std::vector<std::string>>> list_xattrs(const Caller& caller, NodeId node);
  asio::awaitable<Status> remove_xattr(const Caller& caller, NodeId node, std::string_view name);

 private:
  asio::awaitable<Result<AttributesAnswer>> find_attributes(const Caller& caller, NodeId node);

  client::OpenFiles& files_;
  KernelBeliefs& beliefs_;
  ToldInodes& told_;
  CachedPages& pages_;
  LastKnown& last_known_;
  const NodeId root_;
};

}  // namespace kintsugi::mount
