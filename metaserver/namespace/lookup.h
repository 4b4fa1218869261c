/// From a path to an inode.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/base/ids.h"
#include "common/proto/store.pb.h"
#include "common/proto/types.pb.h"
#include "metaserver/namespace/path.h"
#include "metaserver/schema/transaction.h"

namespace kintsugi::metaserver {

/// The inode that a name in a directory stands for.
struct Entry {
  InodeId id;
  proto::Attributes::Type type = proto::Attributes::FILE;

  bool is_directory() const { return type == proto::Attributes::DIRECTORY; }
};

std::optional<Entry> find_entry(const Reader& reader, InodeId parent, std::string_view name);
/// Returns the entry as the transaction will leave it.
std::optional<Entry> find_entry(const Transaction& transaction, InodeId parent, std::string_view name);

/// Follows `names` from the root. kNotFound or kNotDirectory names the component. `trail`, when given, receives every
/// directory and file on the way, the root first.
Result<Entry> walk(const Reader& reader, std::span<const std::string_view> names,
                   std::vector<InodeId>* trail = nullptr);

/// Returns the directory that holds (or would hold) the last name of a path that is not the root.
Result<InodeId> walk_to_parent(const Reader& reader, const Path& path, std::vector<InodeId>* trail = nullptr);

/// Returns the stored inode. REQUIRES: it exists. That of an entry always does.
proto::StoredInode load_inode(const Reader& reader, InodeId id);

proto::Attributes to_attributes(InodeId id, const proto::StoredInode& inode);

/// Returns the path of a directory: `known`, if it leads there, else what its parents say. A directory in one of very
/// many entries is called by its number, "inode 81".
std::string path_of(const Reader& reader, InodeId directory, std::string_view known);

/// The text of a path's first names: "/a/b".
std::string path_text(std::span<const std::string_view> names);

inline bool is_directory(const proto::StoredInode& inode) {
  return inode.type() == proto::Attributes::DIRECTORY;
}

}  // namespace kintsugi::metaserver
