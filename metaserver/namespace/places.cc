#include "metaserver/namespace/places.h"

#include <algorithm>

#include "metaserver/namespace/inodes.h"
#include "metaserver/namespace/lookup.h"

namespace kintsugi::metaserver {
namespace {

constexpr uint32_t kReadOnlyBits = 0555;

Status denied_at(std::span<const std::string_view> names) {
  return {Code::kAccessDenied, path_text(names) + " denies permission to this user"};
}

Status gone() {
  return {Code::kStale, "does not exist any more"};
}

}  // namespace

Result<Place> Places::of(InodeId id) const {
  if (!SnapshotInode::is(id)) return Place(store_, id);
  const SnapshotInode in = SnapshotInode::of(id);
  if (in.slot == 0) {
    if (snapshots_.of(in.id).empty()) return gone();
    return Place::snapshots_of(store_, in.id);
  }
  const auto snapshot = snapshots_.in_slot(in.slot);
  if (!snapshot) return gone();
  Place place(store_, in.id, in.slot, snapshot->number);
  const auto inode = Reader(place.view()).get_message<proto::StoredInode>(keys::inode(in.id));
  if (!inode || inode->born() >= snapshot->number) return gone();
  return place;
}

Result<Place> Places::at(std::string_view text) const {
  KINTSUGI_ASSIGN(const Path path, Path::parse(text));
  const std::span<const std::string_view> names(path.names);
  const auto special = std::find(names.begin(), names.end(), kSnapshotsName);
  const auto there_now = [&]() -> Result<Place> {
    KINTSUGI_ASSIGN(const Entry entry, walk(store_, names));
    return Place(store_, entry.id);
  };
  if (special == names.end() || !snapshots_.any()) return there_now();
  const size_t depth = static_cast<size_t>(special - names.begin());
  KINTSUGI_ASSIGN(const Entry directory, walk(store_, names.first(depth)));
  if (snapshots_.of(directory.id).empty()) return there_now();
  if (depth + 1 == names.size()) return Place::snapshots_of(store_, directory.id);
  const auto snapshot = snapshots_.find(directory.id, names[depth + 1]);
  if (!snapshot) return Status{Code::kNotFound, path_text(names.first(depth + 2)) + " does not exist"};
  const Place root(store_, directory.id, snapshot->slot, snapshots_.in_slot(snapshot->slot)->number);
  Entry at{directory.id, proto::Attributes::DIRECTORY};
  for (size_t i = depth + 2; i < names.size(); ++i) {
    if (!at.is_directory())
      return Status{Code::kNotDirectory, path_text(names.first(i)) + " is not a directory"};
    const std::optional<Entry> next = find_entry(root.view(), at.id, names[i]);
    if (!next) return Status{Code::kNotFound, path_text(names.first(i + 1)) + " does not exist"};
    at = *next;
  }
  return root.with(at.id);
}

Result<Place> Places::lookup(const Place& directory, const Caller& caller, std::string_view name) const {
  if (directory.lists_snapshots()) {
    if (name == ".") return directory;
    if (name == "..") return Place(store_, directory.id());
    const auto snapshot = snapshots_.find(directory.id(), name);
    if (!snapshot) return Status{Code::kNotFound, "does not exist"};
    return Place(store_, directory.id(), snapshot->slot, snapshots_.in_slot(snapshot->slot)->number);
  }
  if (directory.slot() != 0 && name == "..") {
    const auto snapshot = snapshots_.in_slot(directory.slot());
    if (snapshot && snapshot->directory == directory.id()) return Place::snapshots_of(store_, directory.id());
  }
  const Transaction transaction(directory.view());
  const Result<InodeId> found = Inodes::lookup(transaction, caller, directory.id(), name);
  if (found) return directory.with(*found);
  const bool special =
      found.error().code() == Code::kNotFound && name == kSnapshotsName && directory.slot() == 0;
  if (special && !snapshots_.of(directory.id()).empty()) return Place::snapshots_of(store_, directory.id());
  return found.error();
}

Result<proto::Attributes> Places::attributes(const Place& place) const {
  const auto inode = Reader(place.view()).get_message<proto::StoredInode>(keys::inode(place.id()));
  if (!inode) return gone();
  proto::Attributes attributes = to_attributes(place.id(), *inode);
  attributes.set_inode(place.shown(attributes.inode()));
  if (place.lists_snapshots()) {
    attributes.set_mode(attributes.mode() & kReadOnlyBits);
    attributes.set_links(static_cast<uint32_t>(2 + snapshots_.of(place.id()).size()));
    attributes.set_has_xattrs(false);
  }
  return attributes;
}

Result<proto::ListResponse> Places::list(const Place& directory, std::string_view after, uint32_t limit,
                                         bool names_only) const {
  proto::ListResponse response;
  if (!directory.lists_snapshots()) {
    const Transaction transaction(directory.view());
    KINTSUGI_ASSIGN(response, Inodes::list(transaction, directory.id(), after, limit, names_only));
    if (directory.slot() == 0) return response;
    for (proto::DirectoryEntry& entry : *response.mutable_entries())
      entry.mutable_attributes()->set_inode(directory.shown(entry.attributes().inode()));
    response.mutable_self()->set_inode(directory.shown(response.self().inode()));
    return response;
  }
  KINTSUGI_ASSIGN(*response.mutable_self(), attributes(directory));
  limit = std::min(limit == 0 ? kDefaultListEntries : limit, kMaxListEntries);
  for (const Snapshots::Named& snapshot : snapshots_.of(directory.id())) {
    if (snapshot.name <= after) continue;
    if (static_cast<uint32_t>(response.entries_size()) == limit) {
      response.set_more(true);
      break;
    }
    const Place root(store_, directory.id(), snapshot.slot, snapshots_.in_slot(snapshot.slot)->number);
    proto::DirectoryEntry& entry = *response.add_entries();
    entry.set_name(snapshot.name);
    KINTSUGI_ASSIGN(*entry.mutable_attributes(), attributes(root));
  }
  return response;
}

// ---- permissions

Result<Place> Places::follow(const Caller& caller, std::span<const std::string_view> names) const {
  Place at(store_, kRootInode);
  for (size_t i = 0; i < names.size(); ++i) {
    const Result<Place> next = lookup(at, caller, names[i]);
    if (!next) {
      const bool denied = next.error().code() == Code::kAccessDenied;
      return denied ? denied_at(names.first(i)) : next.error();
    }
    at = *next;
  }
  return at;
}

Status Places::check_at(const Caller& caller, std::span<const std::string_view> names,
                        uint32_t wanted) const {
  const Result<Place> place = follow(caller, names);
  if (!place) return place.error().code() == Code::kAccessDenied ? place.error() : Status{};
  const Transaction transaction(place->view());
  const auto inode = transaction.get_message<proto::StoredInode>(keys::inode(place->id()));
  if (!inode || metaserver::check_access(transaction, caller, place->id(), *inode, wanted).ok()) return {};
  return denied_at(names);
}

Status Places::check_access(const Caller& caller, std::string_view text, uint32_t wanted) const {
  if (caller.is_root()) return {};
  KINTSUGI_ASSIGN(const Path path, Path::parse(text));
  return check_at(caller, path.names, wanted);
}

Status Places::check_parent(const Caller& caller, std::string_view text, uint32_t wanted) const {
  if (caller.is_root()) return {};
  KINTSUGI_ASSIGN(const Path path, Path::parse(text));
  const std::span<const std::string_view> names(path.names);
  return names.empty() ? Status{} : check_at(caller, names.first(names.size() - 1), wanted);
}

Status Places::check_owner(const Caller& caller, std::string_view text) const {
  if (caller.is_root()) return {};
  KINTSUGI_ASSIGN(const Path path, Path::parse(text));
  const Result<Place> place = follow(caller, path.names);
  if (!place) return place.error().code() == Code::kAccessDenied ? place.error() : Status{};
  const auto inode = Reader(place->view()).get_message<proto::StoredInode>(keys::inode(place->id()));
  if (!inode || inode->uid() == caller.uid) return {};
  return {Code::kNotPermitted, fmt::format("{} belongs to user {}: only that user and root may do this",
                                           path_text(path.names), inode->uid())};
}

Status Places::check_writable(std::string_view path) const {
  if (!snapshots_.any()) return {};
  // What does not exist yet may be in a directory that does.
  Result<Place> place = at(path);
  while (!place && place.error().code() == Code::kNotFound && path.rfind('/') != path.npos &&
         path.rfind('/') > 0) {
    path = path.substr(0, path.rfind('/'));
    place = at(path);
  }
  if (!place || (place->slot() == 0 && !place->lists_snapshots())) return {};
  return {Code::kReadOnly, std::string(path) + " is in a snapshot"};
}

}  // namespace kintsugi::metaserver
