#include "metaserver/service/fsck_names.h"

#include <fmt/format.h>

#include "metaserver/namespace/lookup.h"
#include "metaserver/schema/snapshot_view.h"

namespace kintsugi::metaserver {
namespace {

constexpr size_t kInodesOfABatch = 1000;
constexpr size_t kNumbersOfAPlace = 5;

}  // namespace

std::string FsckNames::Place::serialise() const {
  std::string bytes;
  for (const uint64_t number : {snapshot, inodes_after, directory, wanted, found})
    for (int shift = 56; shift >= 0; shift -= 8)
      bytes.push_back(static_cast<char>(number >> shift));
  return bytes + name;
}

FsckNames::Place FsckNames::Place::parse(std::string_view bytes) {
  Place place;
  if (bytes.size() < 8 * kNumbersOfAPlace) return place;  // not returned by any page: begin at the start
  for (uint64_t* number :
       {&place.snapshot, &place.inodes_after, &place.directory, &place.wanted, &place.found}) {
    for (size_t i = 0; i < 8; ++i)
      *number = *number << 8 | static_cast<uint8_t>(bytes[i]);
    bytes.remove_prefix(8);
  }
  place.name = bytes;
  return place;
}

std::string FsckNames::check(InodeId root, std::string_view after) {
  Place place = Place::parse(after);
  for (const auto& [number, path] : snapshots_.below(reader_, root)) {
    const proto::StoredSnapshot* snapshot = snapshots_.with_number(number);
    if (number < place.snapshot || snapshot == nullptr || snapshot->deleting()) continue;
    if (number > place.snapshot) place = Place{.snapshot = number};
    if (!check_snapshot(*snapshot, place)) return place.serialise();
  }
  return {};
}

bool FsckNames::check_snapshot(const proto::StoredSnapshot& snapshot, Place& place) {
  const SnapshotView view(reader_.view(), place.snapshot);
  const Reader then(view);
  while (true) {
    const Wanted batch = wanted(snapshot, place);
    for (auto it = batch.in.lower_bound(place.directory); it != batch.in.end(); ++it) {
      const auto& [directory, inodes] = *it;
      if (directory != place.directory || place.name.empty())
        place = {place.snapshot, place.inodes_after, directory, inodes.size(), 0, ""};
      if (!check_directory(then, inodes, place)) return false;
      // What was removed since an earlier page began the directory is kept now, and may have been passed already.
      if (place.wanted == inodes.size() && place.found < place.wanted)
        tell(snapshot, then, InodeId{directory}, place.wanted - place.found);
    }
    if (batch.last == 0) return true;
    place = {.snapshot = place.snapshot, .inodes_after = batch.last};
    if (read_ >= kFsckNamesOfAPage) return false;
  }
}

FsckNames::Wanted FsckNames::wanted(const proto::StoredSnapshot& snapshot, const Place& place) {
  Wanted batch;
  size_t looked_at = 0;
  const keys::Range inodes = keys::all(keys::Kind::kInode);
  const keys::Range range{
      keys::SavedKey{keys::inode(InodeId{place.inodes_after + 1}), place.snapshot}.listed(),
      keys::SavedKey{inodes.end, place.snapshot}.listed()};
  reader_.scan(range, [&](std::string_view listed, std::string_view) {
    const keys::SavedKey at = keys::SavedKey::of_listed(listed);
    const InodeId id{keys::first_id(at.key)};
    const auto bytes = reader_.get(at.value());
    if (++looked_at == kInodesOfABatch) batch.last = id.value;
    const SavedValue saved = bytes ? SavedValue::parse(*bytes) : SavedValue{};
    if (!saved.value || saved.in_any || id.value == snapshot.directory()) return looked_at < kInodesOfABatch;
    const auto inode = Reader::parse<proto::StoredInode>(*saved.value);
    // What was moved into the directory later is kept as it was then. A later change has a later time.
    const bool as_it_was = inode.changed_ns() < snapshot.created_ns();
    if (as_it_was && inode.links() > 0 && !inode.linked() && inode.parent() != 0)
      batch.in[inode.parent()].insert(id.value);
    return looked_at < kInodesOfABatch;
  });
  read_ += looked_at;
  return batch;
}

bool FsckNames::check_directory(const Reader& then, const std::set<uint64_t>& wanted, Place& place) {
  bool all = true;
  then.scan(keys::entries(InodeId{place.directory}, place.name),
            [&](std::string_view key, std::string_view value) {
              place.name = keys::name_of_entry(key);
              place.found += wanted.contains(Reader::parse<proto::StoredDirectoryEntry>(value).inode());
              return all = ++read_ < kFsckNamesOfAPage;
            });
  return all;
}

void FsckNames::tell(const proto::StoredSnapshot& snapshot, const Reader& then, InodeId directory,
                     uint64_t lost) {
  // A deleted snapshot leaves what it kept to an older one, which may be of another directory that shows nothing of it.
  if (!lies_within(then, directory, InodeId{snapshot.directory()})) return;
  proto::FsckSnapshot* damaged = response_.add_damaged_snapshots();
  damaged->set_path(path_of(reader_, InodeId{snapshot.directory()}, snapshot.path()));
  damaged->set_name(snapshot.name());
  damaged->set_entries(lost);
  damaged->set_detail(
      fmt::format("{} of the names that were in {} {} missing, while the snapshot keeps what they stood for",
                  lost, path_of(then, directory, ""), lost == 1 ? "is" : "are"));
}

}  // namespace kintsugi::metaserver
