#include "metaserver/namespace/snapshots.h"

#include <algorithm>

#include <fmt/format.h>

#include "metaserver/namespace/ancestors.h"
#include "metaserver/namespace/inodes.h"
#include "metaserver/namespace/lookup.h"

namespace kintsugi::metaserver {
namespace {

constexpr std::string_view kCounter = "snapshot";

proto::Snapshot described(const Reader& reader, uint64_t number, const proto::StoredSnapshot& stored) {
  proto::Snapshot snapshot;
  snapshot.set_path(path_of(reader, InodeId{stored.directory()}, stored.path()));
  snapshot.set_name(stored.name());
  snapshot.set_created_ns(stored.created_ns());
  snapshot.set_number(number);
  snapshot.set_kept_bytes(stored.kept_bytes());
  snapshot.set_kept_records(stored.kept_records());
  snapshot.set_deleting(stored.deleting());
  return snapshot;
}

}  // namespace

bool lies_within(const Reader& reader, InodeId directory, InodeId other) {
  return walk_up_to(reader, directory, other) == WalkEnd::kStopped;
}

void Snapshots::load(const Reader& reader) {
  reader.scan(keys::all(keys::Kind::kSnapshot), [&](std::string_view key, std::string_view value) {
    const uint64_t number = keys::first_id(key);
    all_[number] = Reader::parse<proto::StoredSnapshot>(value);
    by_directory_[InodeId{all_[number].directory()}].insert(number);
    return true;
  });
}

void Snapshots::follow(const Transaction& transaction) {
  for (const auto& [key, value] : transaction.written(keys::all(keys::Kind::kSnapshot))) {
    const uint64_t number = keys::first_id(key);
    if (value) {
      all_[number] = Reader::parse<proto::StoredSnapshot>(*value);
      by_directory_[InodeId{all_[number].directory()}].insert(number);
    } else if (const auto gone = all_.find(number); gone != all_.end()) {
      const auto siblings = by_directory_.find(InodeId{gone->second.directory()});
      siblings->second.erase(number);
      if (siblings->second.empty()) by_directory_.erase(siblings);
      all_.erase(gone);
    }
  }
}

uint64_t Snapshots::newest(uint64_t up_to) const {
  for (auto it = all_.upper_bound(up_to); it != all_.begin();)
    if (!(--it)->second.deleting()) return it->first;
  return 0;
}

uint64_t Snapshots::newest_of(InodeId directory, uint64_t up_to) const {
  const auto found = by_directory_.find(directory);
  if (found == by_directory_.end()) return 0;
  for (auto it = found->second.upper_bound(up_to); it != found->second.begin();)
    if (!all_.at(*--it).deleting()) return *it;
  return 0;
}

std::vector<InodeId> Snapshots::domains_above(const Reader& reader, InodeId directory, bool* complete) const {
  std::vector<InodeId> domains;
  const WalkEnd end = walk_up(reader, directory, [&](InodeId at) {
    if (by_directory_.contains(at)) domains.push_back(at);
    return true;
  });
  if (complete && end != WalkEnd::kRoot) *complete = false;
  return domains;
}

Status Snapshots::create(Transaction& transaction, std::string_view text, const std::string& name,
                         int64_t now_ns, uint64_t first_unused) const {
  KINTSUGI_ASSIGN(const Path path, Path::parse(text));
  KINTSUGI_ASSIGN(const Entry entry, walk(transaction.store(), path.names));
  const std::string shown = path_text(path.names);
  if (!entry.is_directory())
    return {Code::kNotDirectory, shown + " is not a directory: snapshots are of directories"};
  if (const Status checked = check_name(name); !checked.ok())
    return {checked.code(), "'" + name + "' " + checked.message()};
  if (find_entry(transaction.store(), entry.id, kSnapshotsName))
    return {Code::kAlreadyExists,
            fmt::format("{} has an entry {}, where its snapshots would be", shown, kSnapshotsName)};
  std::set<uint32_t> used;
  for (const auto& [number, other] : all_) {
    used.insert(other.slot());
    if (InodeId{other.directory()} == entry.id && other.name() == name && !other.deleting())
      return {Code::kAlreadyExists, fmt::format("{} has a snapshot {} already", shown, name)};
  }
  if (all_.size() >= kMaxSnapshots)
    return {Code::kLimitExceeded,
            fmt::format("there are {} snapshots already, as many as there may be", kMaxSnapshots)};
  if (first_unused > SnapshotInode::kMaxPlain)
    return {Code::kLimitExceeded, "the ids of inodes have become too large for snapshots"};
  auto counter =
      transaction.get_message<proto::StoredCounter>(keys::counter(kCounter)).value_or(proto::StoredCounter{});
  const uint64_t number = std::max<uint64_t>(counter.next(), 1);
  counter.set_next(number + 1);
  transaction.put_message(keys::counter(kCounter), counter);
  // One that was used lately may still be remembered by kernels and readers. Numbers are never given again.
  auto slot = static_cast<uint32_t>(number % (SnapshotInode::kSlots - 1));
  do {
    slot = slot % (SnapshotInode::kSlots - 1) + 1;
  } while (used.contains(slot));
  proto::StoredSnapshot made;
  made.set_directory(entry.id.value);
  made.set_name(name);
  made.set_created_ns(now_ns);
  made.set_slot(slot);
  made.set_path(shown);
  transaction.put_message(keys::snapshot(number), made);
  return {};
}

Status Snapshots::remove(Transaction& transaction, std::string_view text, std::string_view name) const {
  KINTSUGI_ASSIGN(const Path path, Path::parse(text));
  KINTSUGI_ASSIGN(const Entry entry, walk(transaction.store(), path.names));
  for (const auto& [number, snapshot] : all_) {
    if (InodeId{snapshot.directory()} != entry.id || snapshot.name() != name || snapshot.deleting()) continue;
    proto::StoredSnapshot deleting = snapshot;
    deleting.set_deleting(true);
    transaction.put_message(keys::snapshot(number), deleting);
    return {};
  }
  return {Code::kNotFound, fmt::format("{} has no snapshot {}", path_text(path.names), name)};
}

Result<proto::ListSnapshotsResponse> Snapshots::list(const Reader& reader, std::string_view text) const {
  std::optional<InodeId> directory;
  if (!text.empty()) {
    KINTSUGI_ASSIGN(const Path path, Path::parse(text));
    KINTSUGI_ASSIGN(const Entry entry, walk(reader, path.names));
    directory = entry.id;
  }
  proto::ListSnapshotsResponse response;
  for (const auto& [number, snapshot] : all_)
    if (!directory || InodeId{snapshot.directory()} == *directory)
      *response.add_snapshots() = described(reader, number, snapshot);
  return response;
}

std::vector<Snapshots::Named> Snapshots::of(InodeId directory) const {
  std::vector<Named> named;
  const auto found = by_directory_.find(directory);
  if (found == by_directory_.end()) return named;
  for (const uint64_t number : found->second) {
    const proto::StoredSnapshot& snapshot = all_.at(number);
    if (!snapshot.deleting()) named.push_back({snapshot.name(), snapshot.slot(), snapshot.created_ns()});
  }
  std::sort(named.begin(), named.end(), [](const Named& a, const Named& b) { return a.name < b.name; });
  return named;
}

std::optional<Snapshots::Named> Snapshots::find(InodeId directory, std::string_view name) const {
  for (Named& snapshot : of(directory))
    if (snapshot.name == name) return std::move(snapshot);
  return std::nullopt;
}

std::optional<Snapshots::Numbered> Snapshots::in_slot(uint32_t slot) const {
  for (const auto& [number, snapshot] : all_)
    if (snapshot.slot() == slot && !snapshot.deleting())
      return Numbered{number, InodeId{snapshot.directory()}};
  return std::nullopt;
}

const proto::StoredSnapshot* Snapshots::with_number(uint64_t number) const {
  const auto found = all_.find(number);
  return found == all_.end() ? nullptr : &found->second;
}

std::map<uint64_t, std::string> Snapshots::below(const Reader& reader, InodeId root) const {
  std::map<uint64_t, std::string> found;
  for (const auto& [directory, numbers] : by_directory_) {
    if (!lies_within(reader, directory, root)) continue;
    const std::string path = path_of(reader, directory, all_.at(*numbers.begin()).path());
    for (const uint64_t number : numbers)
      found[number] = join(join(path, kSnapshotsName), all_.at(number).name());
  }
  return found;
}

Status Snapshots::check_move(const Transaction& transaction, InodeId from, InodeId to) const {
  if (all_.empty() || from == to) return {};
  const auto left = domains_above(transaction.store(), from);
  if (left.empty()) return {};
  const auto entered = domains_above(transaction.store(), to);
  if (std::find(entered.begin(), entered.end(), left.front()) != entered.end()) return {};
  return {Code::kCrossDevice, "cannot be moved out of a directory that has snapshots"};
}

Status Snapshots::check_removal(const Transaction& transaction, InodeId directory, bool recursive) const {
  if (all_.empty()) return {};
  if (by_directory_.contains(directory)) return {Code::kNotEmpty, "has snapshots"};
  if (!recursive) return {};
  for (const auto& [with_snapshots, numbers] : by_directory_) {
    if (lies_within(transaction.store(), with_snapshots, directory))
      return {Code::kNotEmpty, "holds a directory that has snapshots"};
  }
  return {};
}

Status Snapshots::check_new_name(InodeId directory, std::string_view name) const {
  if (name != kSnapshotsName || of(directory).empty()) return {};
  return {Code::kAlreadyExists, "is where the snapshots of the directory are"};
}

}  // namespace kintsugi::metaserver
