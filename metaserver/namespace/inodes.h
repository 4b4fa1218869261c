/// Inodes and the names that directories give them, as POSIX has them: how they are found, and what the operations on
/// them (ops/) are made of. Each operation is a plain function: it reads, checks, and puts its writes into the
/// caller's transaction, which makes it one atomic batch. On an error the transaction must be dropped.
///
/// Messages of errors say what the matter is ("is not empty"); whoever knows the path puts it before them.
#pragma once

#include <functional>
#include <optional>
#include <string_view>

#include "common/base/status.h"
#include "common/proto/inode.pb.h"
#include "common/runtime/clock.h"
#include "metaserver/namespace/access.h"
#include "metaserver/namespace/lookup.h"
#include "metaserver/namespace/snapshots.h"
#include "metaserver/namespace/trash.h"
#include "metaserver/schema/extents.h"
#include "metaserver/schema/id_allocator.h"

namespace kintsugi::metaserver {

inline constexpr uint32_t kDefaultListEntries = 1000;
/// A page of so many entries stays below rpc::kMaxHeaderBytes.
inline constexpr uint32_t kMaxListEntries = 2000;
/// With attributes, each of which is a read of its own: some 30 us when nothing of it is cached, and nobody else is
/// served meanwhile.
inline constexpr uint32_t kMaxListAttributes = 250;
/// A file of more extents becomes an orphan before it is reclaimed.
inline constexpr size_t kMaxExtentsFreedAtOnce = 16;

class Inodes {
 public:
  /// What is referred to must outlive it. Without snapshots and trash there are none.
  Inodes(IdAllocator& ids, const runtime::Clock& clock, const Snapshots* snapshots = nullptr,
         const Trash* trash = nullptr)
      : ids_(ids), clock_(clock), snapshots_(snapshots), trash_(trash) {}

  IdAllocator& ids() const { return ids_; }
  const Snapshots* snapshots() const { return snapshots_; }  ///< null: the namespace has no snapshots
  const Trash* trash() const { return trash_; }              ///< null: the namespace has no trash
  int64_t now_ns() const { return clock_.wall_now().time_since_epoch().count(); }

  /// kStale: there is none (any more); kReadOnly: it is in a snapshot. Everything below that takes an inode's id fails
  /// so.
  static Result<proto::StoredInode> find(const Transaction& transaction, InodeId id);

  /// A directory that may be searched for names.
  static Result<proto::StoredInode> searched(const Transaction& transaction, const Caller& caller,
                                             InodeId id);
  /// A directory that names may be added to or removed from.
  static Result<proto::StoredInode> changed(const Transaction& transaction, const Caller& caller, InodeId id);
  /// "." and ".." included. kNotFound, kNotDirectory, kAccessDenied, kNameTooLong.
  static Result<InodeId> lookup(const Transaction& transaction, const Caller& caller, InodeId parent,
                                std::string_view name);
  /// The entries of a directory after name `after`, and the directory itself.
  static Result<proto::ListResponse> list(const Transaction& transaction, InodeId directory,
                                          std::string_view after, uint32_t limit, bool names_only);

  /// Ok when the directory may have an entry of this name. kAlreadyExists, kNameTooLong, kInvalidArgument.
  Status check_new_name(InodeId directory, std::string_view name) const;
  /// The directory's content has changed, at that time (0: now). Returns the directory as it is now.
  proto::StoredInode touch(Transaction& transaction, InodeId directory, int link_change,
                           int64_t at_ns = 0) const;
  /// Gives an inode its first name, in the place of whatever has that name; it counts for the directory's quota.
  void put(Transaction& transaction, InodeId parent, std::string_view name, InodeId id,
           proto::StoredInode inode) const;
  proto::StoredInode fresh(proto::Attributes::Type type, uint32_t mode) const;
  /// The inode lost a name.
  void drop(Transaction& transaction, Entry entry, const std::function<bool(InodeId)>& held,
            FreedStripes& freed, std::optional<bool> is_empty = std::nullopt) const;

 private:
  IdAllocator& ids_;
  const runtime::Clock& clock_;
  const Snapshots* const snapshots_;
  const Trash* const trash_;
};

/// Ok when an entry may have this name. kNameTooLong, kInvalidArgument.
Status check_name(std::string_view name);

/// A directory has this entry from now on, in the place of whatever had the name.
void put_entry(Transaction& transaction, InodeId parent, std::string_view name, Entry entry);

}  // namespace kintsugi::metaserver
