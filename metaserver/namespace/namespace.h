/// The operations on paths, which stand on those on inodes. Whoever they are done for must be able to search the
/// directories on the way (Places::check_parent): these check the last ones. Each is a plain function: it reads,
/// checks, and puts its writes into the caller's transaction, which makes it one atomic batch. On an error the
/// transaction must be dropped.
///
/// All take paths as they came from the wire; every error names the path.
#pragma once

#include <string>
#include <string_view>

#include "common/base/status.h"
#include "common/proto/meta.pb.h"
#include "common/proto/types.pb.h"
#include "common/runtime/clock.h"
#include "metaserver/namespace/inodes.h"
#include "metaserver/namespace/lookup.h"
#include "metaserver/schema/id_allocator.h"
#include "metaserver/schema/stripes.h"
#include "metaserver/schema/transaction.h"

namespace kintsugi::metaserver {

/// A file as CommitFile describes it, once its stripes have been checked.
struct NewFile {
  uint32_t mode = 0, uid = 0, gid = 0;  ///< mode 0 stands for 0644
  int64_t modified_ns = 0;              ///< 0: the current time
  uint64_t size = 0;
  std::string policy;
  uint64_t upload_id = 0;
  google::protobuf::RepeatedPtrField<proto::Extent> extents;
};

class Namespace {
 public:
  using Held = std::function<bool(InodeId)>;

  /// References must outlive it. `held` says whether somebody has an inode open: it then outlives its last name.
  Namespace(
      IdAllocator& inode_ids, const Inodes& inodes, Held held = [](InodeId) { return false; })
      : inode_ids_(inode_ids), inodes_(inodes), held_(std::move(held)) {}

  /// Makes the root directory, which belongs to this user and group, with the policy of files that find none below it.
  void format(Transaction& transaction, const std::string& policy, uint32_t uid = 0, uint32_t gid = 0) const;

  Result<proto::Attributes> stat(const Reader& reader, std::string_view path) const;
  /// The entries of a directory after name `after`, and the directory itself; a file has no entries, only `self`.
  Result<proto::ListResponse> list(const Transaction& transaction, std::string_view path,
                                   std::string_view after, uint32_t limit) const;

  /// kAlreadyExists, unless `parents` is set and a directory is there.
  Status make_directory(Transaction& transaction, std::string_view path, bool parents, uint32_t mode,
                        const Caller& caller = Caller::root());

  /// Removes a file, an empty directory or, `recursive`, a directory with all below it: gone at once for everybody,
  /// reclaimed later (see reclaim.h). kNotEmpty.
  Status remove(Transaction& transaction, std::string_view path, bool recursive, FreedStripes& freed,
                const Caller& caller = Caller::root());

  /// Renames as POSIX does. An existing target is kAlreadyExists unless `replace`; then a file replaces a file, a
  /// directory an empty directory. kInvalidArgument for a directory into itself or for the root.
  Status rename(Transaction& transaction, std::string_view from, std::string_view to, bool replace,
                FreedStripes& freed, const Caller& caller = Caller::root());

  /// Makes the file that `path` names, as one swap: the old one, if any, is unlinked in the same batch. The stripes of
  /// its extents have their records in the store or in the transaction. It belongs to the caller, unless that is root.
  Result<proto::Attributes> put_file(Transaction& transaction, std::string_view path, NewFile file,
                                     bool replace, FreedStripes& freed,
                                     const Caller& caller = Caller::root());

 private:
  /// The caller may make this file in the directory, and is its owner from then on.
  static Status take_over(const Transaction& transaction, const Caller& caller, InodeId parent,
                          const std::optional<Entry>& target, NewFile& file);

  IdAllocator& inode_ids_;
  const Inodes& inodes_;
  const Held held_;
};

}  // namespace kintsugi::metaserver
