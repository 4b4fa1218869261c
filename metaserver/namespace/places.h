/// Resolves ids and paths for reading, in the live namespace or in a snapshot. Changes use the live ids: for an inode
/// in a snapshot Inodes::find returns kReadOnly.
#pragma once

#include <memory>
#include <string_view>

#include "common/base/status.h"
#include "common/proto/meta.pb.h"
#include "metaserver/namespace/access.h"
#include "metaserver/namespace/snapshots.h"
#include "metaserver/schema/snapshot_view.h"

namespace kintsugi::metaserver {

/// An inode, and what it is to be read from.
class Place {
 public:
  /// The store outlives the place.
  Place(const ReadView& store, InodeId id) : store_(&store), id_(id) {}
  Place(const ReadView& store, InodeId id, uint32_t slot, uint64_t snapshot)
      : store_(&store),
        view_(std::make_shared<SnapshotView>(store, snapshot)),
        id_(id),
        slot_(slot),
        number_(snapshot) {}
  /// The directory `.snapshots` of a directory.
  static Place snapshots_of(const ReadView& store, InodeId directory) {
    Place place(store, directory);
    place.lists_snapshots_ = true;
    return place;
  }

  const ReadView& view() const { return view_ ? static_cast<const ReadView&>(*view_) : *store_; }
  InodeId id() const { return id_; }  ///< inode in view()
  uint32_t slot() const { return slot_; }
  uint64_t snapshot() const { return number_; }  ///< number of the snapshot; 0: the live namespace
  bool lists_snapshots() const { return lists_snapshots_; }
  /// Another inode of the same view.
  Place with(InodeId id) const {
    Place place = *this;
    place.id_ = id;
    return place;
  }
  /// The id by which others know an inode of this view.
  uint64_t shown(uint64_t id) const {
    return view_ || lists_snapshots_ ? SnapshotInode{slot_, InodeId{id}}.shown().value : id;
  }

 private:
  const ReadView* store_;
  std::shared_ptr<const SnapshotView> view_;  ///< none: the live namespace
  InodeId id_;
  uint32_t slot_ = 0;
  uint64_t number_ = 0;
  bool lists_snapshots_ = false;
};

class Places {
 public:
  /// References must outlive it.
  Places(const ReadView& store, const Snapshots& snapshots) : store_(store), snapshots_(snapshots) {}

  /// Resolves an id. kStale: the snapshot, or the inode in it, does not exist (any more). Of what is there now any id
  /// will do.
  Result<Place> of(InodeId id) const;
  /// Resolves a path. kNotFound, kNotDirectory, with the path.
  Result<Place> at(std::string_view path) const;
  /// Resolves a name in a directory, as Inodes::lookup does.
  Result<Place> lookup(const Place& directory, const Caller& caller, std::string_view name) const;
  /// Returns the attributes of a place. kStale.
  Result<proto::Attributes> attributes(const Place& place) const;
  /// Lists a directory, as Inodes::list does.
  Result<proto::ListResponse> list(const Place& directory, std::string_view after, uint32_t limit,
                                   bool names_only) const;
  /// Checks permissions of whoever names something by its path: every directory on the way has to be searched. What is
  /// not there is no error of these functions: it is left to whoever follows the path. kAccessDenied, with the path.
  Status check_access(const Caller& caller, std::string_view path, uint32_t wanted) const;
  /// Checks permissions, as check_access does, on the directory that holds, or would hold, the last name.
  Status check_parent(const Caller& caller, std::string_view path, uint32_t wanted) const;
  /// Checks that what the path leads to is the caller's, or the caller is root. kNotPermitted.
  Status check_owner(const Caller& caller, std::string_view path) const;
  /// Checks that the path does not lead into a snapshot: kReadOnly. Other errors are left to whoever follows it.
  Status check_writable(std::string_view path) const;

 private:
  Result<Place> follow(const Caller& caller, std::span<const std::string_view> names) const;
  Status check_at(const Caller& caller, std::span<const std::string_view> names, uint32_t wanted) const;

  const ReadView& store_;
  const Snapshots& snapshots_;
};

}  // namespace kintsugi::metaserver
