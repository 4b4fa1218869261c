/// The operations on inodes and the names that directories give them, as POSIX has them. Each is a plain function: it
/// reads, checks, and puts its writes into the caller's transaction, which makes it one atomic batch. On an error the
/// transaction must be dropped.
///
/// Messages of errors say what the matter is ("is not empty"); whoever knows the path puts it before them.
#pragma once

#include <functional>
#include <optional>
#include <string>
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
inline constexpr uint32_t kMaxListEntries = 2000;  ///< keeps a page below rpc::kMaxHeaderBytes
/// With attributes, each of which is a read of its own: some 30 us when nothing of it is cached, and nobody else is served meanwhile.
inline constexpr uint32_t kMaxListAttributes = 250;
/// A file of more extents becomes an orphan before it is reclaimed.
inline constexpr size_t kMaxExtentsFreedAtOnce = 16;
inline constexpr size_t kMaxTargetBytes = 4095;  ///< of a symbolic link

/// What an inode is made with.
struct NewInode {
  proto::Attributes::Type type = proto::Attributes::FILE;
  uint32_t mode = 0, umask = 0;
  uint64_t device = 0;
  std::string target;
  std::string policy;  ///< of a file
  InodeId id;          ///< an id that was reserved; none: the next one
  int64_t at_ns = 0;   ///< when it was made; 0, or later than now: now
};

class Inodes {
 public:
  /// What is referred to must outlive it. Without snapshots and trash there are none.
  Inodes(IdAllocator& ids, const runtime::Clock& clock, const Snapshots* snapshots = nullptr,
         const Trash* trash = nullptr)
      : ids_(ids), clock_(clock), snapshots_(snapshots), trash_(trash) {}

  int64_t now_ns() const { return clock_.wall_now().time_since_epoch().count(); }

  /// kStale: there is none (any more); kReadOnly: it is in a snapshot. Everything below that takes an inode's id fails so.
  static Result<proto::StoredInode> find(const Transaction& transaction, InodeId id);

  /// "." and ".." included. kNotFound, kNotDirectory, kAccessDenied, kNameTooLong.
  static Result<InodeId> lookup(const Transaction& transaction, const Caller& caller, InodeId parent,
                                std::string_view name);
  /// The entries of a directory after name `after`, and the directory itself.
  static Result<proto::ListResponse> list(const Transaction& transaction, InodeId directory,
                                          std::string_view after, uint32_t limit, bool names_only);

  /// Makes an inode with its first name. kAlreadyExists.
  Result<InodeId> make(Transaction& transaction, const Caller& caller, InodeId parent, std::string_view name,
                       const NewInode& made) const;
  /// Makes a file without a name, to be held by somebody or linked.
  Result<InodeId> make_nameless(Transaction& transaction, const Caller& caller, InodeId parent,
                                const NewInode& made) const;
  Status link(Transaction& transaction, const Caller& caller, InodeId id, InodeId parent,
              std::string_view name) const;

  enum class Kind { kAny, kDirectory, kOther };
  struct Unlinked {
    Kind kind = Kind::kAny;  ///< what must be there
    bool recursive = false;  ///< a directory goes with all below it: at once for everybody, reclaimed later
    /// Says whether somebody has the inode open, so that it must live on.
    std::function<bool(InodeId)> held = [](InodeId) { return false; };
    int64_t at_ns = 0;  ///< when it was removed; 0, or later than now: now
  };
  /// Removes a name, and the inode with its last one, or moves it into the trash (trash.h). kNotEmpty.
  Status unlink(Transaction& transaction, const Caller& caller, InodeId parent, std::string_view name,
                const Unlinked& how, FreedStripes& freed) const;

  enum class Target { kReplace, kMustNotExist, kExchange };
  /// Renames. A file replaces a file, a directory an empty directory. kInvalidArgument for a directory into itself.
  Status move(Transaction& transaction, const Caller& caller, InodeId from, std::string_view from_name,
              InodeId to, std::string_view to_name, Target target, const std::function<bool(InodeId)>& held,
              FreedStripes& freed) const;

  /// chmod, chown, utimens, truncate. A file that is cut off by very many extents is to be cut in steps (Cuts).
  Status set_attributes(Transaction& transaction, const Caller& caller,
                        const proto::SetAttributesRequest& request, FreedStripes& freed) const;

  Result<std::string> get_xattr(const Transaction& transaction, const Caller& caller, InodeId id,
                                std::string_view name) const;
  Status set_xattr(Transaction& transaction, const Caller& caller,
                   const proto::SetXattrRequest& request) const;
  static Result<std::vector<std::string>> list_xattrs(const Transaction& transaction, InodeId id);

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
  Result<InodeId> add(Transaction& transaction, const Caller& caller, InodeId parent, const NewInode& made,
                      bool nameless) const;

  /// Moves what is about to lose its last name into the trash. False: it is not to be kept, and nothing was changed.
  bool discard(Transaction& transaction, InodeId parent, std::string_view name, Entry entry,
               proto::StoredInode inode, bool is_empty) const;

  IdAllocator& ids_;
  const runtime::Clock& clock_;
  const Snapshots* const snapshots_;
  const Trash* const trash_;
};

/// Ok when an entry may have this name. kNameTooLong, kInvalidArgument.
Status check_name(std::string_view name);

/// Takes capabilities, the set-user-ID bit, and the set-group-ID bit where it means what it says or the caller is not of the group, from a file.
void clear_privileges(Transaction& transaction, InodeId id, proto::StoredInode& inode, const Caller& caller);

/// Ok when `target` may give way to what `moved` is.
Status check_replaceable(const Transaction& transaction, Entry target, Entry moved);

}  // namespace kintsugi::metaserver
