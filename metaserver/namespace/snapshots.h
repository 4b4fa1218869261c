/// Snapshots of directories: what was below one at a moment, to be read until the snapshot is deleted.
///
/// Making one costs one record, whatever the directory holds. Afterwards whatever changes an inode, an entry, an
/// extent or an extended attribute below the directory for the first time saves its former value for the newest
/// snapshot that it is in (schema/snapshot_view.h), in the same batch: save_for_snapshots() does so for every
/// transaction, so no operation knows of it. A saved extent counts as a reference to its stripe, which is therefore
/// repaired, checked and not freed, like those of files.
///
/// What is in a snapshot is found by the directories above. That stays true while nothing leaves the directory but by
/// removal: moves out of it are refused (kCrossDevice). An inode of several names, or of metadata that did not note
/// where files are, counts as being in every snapshot: it costs space, and is never wrong.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/ids.h"
#include "common/base/status.h"
#include "common/proto/agreed_numbers.h"
#include "common/proto/meta.pb.h"
#include "common/proto/store.pb.h"
#include "metaserver/schema/transaction.h"

namespace kintsugi::metaserver {

inline constexpr size_t kMaxSnapshots = 1000;
/// Below a directory that has snapshots; it is looked up, and never listed.
inline constexpr std::string_view kSnapshotsName = ".snapshots";

/// An inode in a snapshot has an id of its own, made of the snapshot's slot and the inode's id. Slot 0: the directory
/// `.snapshots` of that inode.
struct SnapshotInode {
  static constexpr uint64_t kBit = proto::kSnapshotBit;
  static constexpr int kSlotShift = 53;
  static constexpr uint32_t kSlots = 1 << 10;
  static constexpr uint64_t kMaxPlain = (uint64_t{1} << kSlotShift) - 1;

  uint32_t slot = 0;
  InodeId id;

  static bool is(InodeId id) { return (id.value & kBit) != 0; }
  static SnapshotInode of(InodeId id) {
    return {static_cast<uint32_t>(id.value >> kSlotShift) % kSlots, InodeId{id.value & kMaxPlain}};
  }
  InodeId shown() const { return InodeId{kBit | uint64_t{slot} << kSlotShift | id.value}; }
};

/// Changes are made in transactions; what is in memory follows those that are handed to the store.
class Snapshots {
 public:
  void load(const Reader& reader);
  /// REQUIRES: the transaction is handed to the store before anything else runs.
  void follow(const Transaction& transaction);
  bool any() const { return !all_.empty(); }

  /// `first_unused` is the least id that no inode has. kAlreadyExists, kLimitExceeded, kInvalidArgument, kNotDirectory.
  Status create(Transaction& transaction, std::string_view path, const std::string& name, int64_t now_ns,
                uint64_t first_unused) const;
  /// It cannot be read any more, and SnapshotDeletion frees what it kept. kNotFound.
  Status remove(Transaction& transaction, std::string_view path, std::string_view name) const;
  /// The snapshots of the directory; of all directories when `path` is empty.
  Result<proto::ListSnapshotsResponse> list(const Reader& reader, std::string_view path) const;

  // ---- what is readable
  struct Named {
    std::string name;
    uint32_t slot = 0;
    int64_t created_ns = 0;
  };
  /// All snapshots of this very directory, or the one with the name.
  std::vector<Named> of(InodeId directory) const;
  std::optional<Named> find(InodeId directory, std::string_view name) const;
  /// The number of the snapshot with this slot, its directory and its name; none: it was deleted.
  struct Numbered {
    uint64_t number = 0;
    InodeId directory;
  };
  std::optional<Numbered> in_slot(uint32_t slot) const;

  /// Null when there is none. Valid until a transaction is followed.
  const proto::StoredSnapshot* with_number(uint64_t number) const;
  /// The snapshots of directories at or below one, by number, and where each can be read; including those that are
  /// being deleted.
  std::map<uint64_t, std::string> below(const Reader& reader, InodeId directory) const;

  // ---- what names may do
  /// Ok when a directory's entries may move to the other one. kCrossDevice.
  Status check_move(const Transaction& transaction, InodeId from, InodeId to) const;
  /// Ok when a directory, with all below it if `recursive`, may be removed. kNotEmpty.
  Status check_removal(const Transaction& transaction, InodeId directory, bool recursive) const;
  /// Ok when an entry may be made. kAlreadyExists: the directory's snapshots have that name.
  Status check_new_name(InodeId directory, std::string_view name) const;

  // ---- where something is
  /// All snapshots by number, those that are being deleted, too.
  const std::map<uint64_t, proto::StoredSnapshot>& all() const { return all_; }
  /// The directories with snapshots at and above one, the nearest first. `complete` becomes false when some above are
  /// not known.
  std::vector<InodeId> domains_above(const Reader& reader, InodeId directory, bool* complete = nullptr) const;
  /// The newest that is not being deleted, of all or of a directory, with a number up to `up_to`. 0: there is none.
  uint64_t newest(uint64_t up_to) const;
  uint64_t newest_of(InodeId directory, uint64_t up_to) const;

 private:
  std::map<uint64_t, proto::StoredSnapshot> all_;  ///< key: number of the snapshot
  /// Snapshot numbers of each directory, including those being deleted.
  std::map<InodeId, std::set<uint64_t>> by_directory_;
};

/// Whether a directory is the other one or below it, by what the inodes say of their parents.
bool lies_within(const Reader& reader, InodeId directory, InodeId other);

}  // namespace kintsugi::metaserver
