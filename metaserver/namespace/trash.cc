#include "metaserver/namespace/trash.h"

#include <algorithm>
#include <ctime>
#include <limits>

#include <fmt/format.h>

#include "metaserver/namespace/ancestors.h"
#include "metaserver/namespace/inodes.h"
#include "metaserver/namespace/ops/links.h"
#include "metaserver/namespace/ops/make.h"
#include "metaserver/namespace/ops/move.h"
#include "metaserver/namespace/path.h"
#include "metaserver/namespace/reclaim.h"

namespace kintsugi::metaserver {
namespace {

constexpr size_t kTrashAStep = 16;

/// What is kept for centuries goes at the last moment that has a number.
int64_t expiry(int64_t removed_ns, int64_t retention_ns) {
  int64_t expires_ns = 0;
  const bool is_too_late = __builtin_add_overflow(removed_ns, retention_ns, &expires_ns);
  return is_too_late ? std::numeric_limits<int64_t>::max() : expires_ns;
}

}  // namespace

void Trash::load(const Reader& reader) {
  reader.scan(keys::all(keys::Kind::kTrash), [&](std::string_view key, std::string_view value) {
    all_[InodeId{keys::first_id(key)}] = Reader::parse<proto::StoredTrash>(value);
    return true;
  });
}

void Trash::follow(const Transaction& transaction) {
  for (const auto& [key, value] : transaction.written(keys::all(keys::Kind::kTrash))) {
    const InodeId directory{keys::first_id(key)};
    if (value) {
      all_[directory] = Reader::parse<proto::StoredTrash>(*value);
    } else {
      all_.erase(directory);
    }
  }
}

Status Trash::set(Transaction& transaction, const Inodes& inodes, std::string_view text,
                  int64_t retention_ns) const {
  KINTSUGI_ASSIGN(const Path path, Path::parse(text));
  KINTSUGI_ASSIGN(const Entry entry, walk(transaction.store(), path.names));
  const std::string shown = path_text(path.names);
  if (!entry.is_directory())
    return {Code::kNotDirectory, shown + " is not a directory: a trash is a directory's"};
  if (retention_ns < 0) return {Code::kInvalidArgument, "the time to keep removed files is negative"};
  const auto found = all_.find(entry.id);
  if (found == all_.end() && retention_ns == 0) return {Code::kNotFound, shown + " has no trash"};
  if (found == all_.end() && all_.size() >= kMaxTrashes)
    return {Code::kLimitExceeded,
            fmt::format("{} directories have a trash, as many as there may be", kMaxTrashes)};
  if (retention_ns > 0) {
    const auto taken = find_entry(transaction.store(), entry.id, kTrashName);
    if (taken && !taken->is_directory())
      return {Code::kAlreadyExists,
              fmt::format("{} has a file {}, where its trash would be", shown, kTrashName)};
  }
  proto::StoredTrash trash = found == all_.end() ? proto::StoredTrash{} : found->second;
  trash.set_retention_ns(retention_ns);
  trash.set_path(shown);
  if (retention_ns > 0 && !bin(transaction, entry.id))
    return make_bin(transaction, inodes, entry.id, std::move(trash));
  transaction.put_message(keys::trash(entry.id), trash);
  return {};
}

Status Trash::make_bin(Transaction& transaction, const Inodes& inodes, InodeId directory,
                       proto::StoredTrash trash) {
  constexpr uint32_t kForOwnerOnly = 0700;
  if (const auto there = find_entry(transaction, directory, kTrashName)) {
    if (!there->is_directory()) return {Code::kAlreadyExists, "is not a directory"};
    trash.set_bin(there->id.value);
  } else {
    NewInode wanted;
    wanted.type = proto::Attributes::DIRECTORY;
    wanted.mode = kForOwnerOnly;
    KINTSUGI_ASSIGN(const InodeId made,
                    ops::make(inodes, transaction, Caller::root(), directory, kTrashName, wanted));
    trash.set_bin(made.value);
  }
  transaction.put_message(keys::trash(directory), trash);
  return {};
}

std::optional<InodeId> Trash::bin(const Transaction& transaction, InodeId directory) const {
  const auto found = all_.find(directory);
  const auto entry = find_entry(transaction, directory, kTrashName);
  if (found == all_.end() || !entry || entry->id.value != found->second.bin()) return std::nullopt;
  return entry->id;
}

std::optional<InodeId> Trash::taker(const Transaction& transaction, InodeId parent) const {
  if (all_.empty()) return std::nullopt;
  std::optional<InodeId> nearest;
  InodeId below;
  const WalkEnd end = walk_up(transaction, parent, [&](InodeId at) {
    if (const auto found = all_.find(at); found != all_.end()) {
      if (below && below.value == found->second.bin()) return false;
      if (!nearest && found->second.retention_ns() > 0) nearest = at;
    }
    below = at;
    return true;
  });
  return end == WalkEnd::kRoot ? nearest : std::nullopt;
}

std::string Trash::entry_name(std::string_view name, InodeId id, int64_t now_ns) {
  const std::time_t seconds = now_ns / 1'000'000'000;
  std::tm utc{};
  ::gmtime_r(&seconds, &utc);
  char when[32];
  std::strftime(when, sizeof when, "%Y-%m-%dT%H-%M-%S", &utc);
  std::string entry = fmt::format("{}.{:09}.{}.{}", when, now_ns % 1'000'000'000, id, name);
  if (entry.size() > kMaxNameBytes) entry.resize(kMaxNameBytes);
  return entry;
}

void Trash::note(Transaction& transaction, InodeId directory, const std::string& entry,
                 const proto::StoredTrashed& trashed) {
  transaction.put_message(keys::trashed(directory, entry), trashed);
}

bool Trash::lies_in_bin(const Reader& reader, InodeId directory) const {
  const WalkEnd end = walk_up(reader, directory, [&](InodeId at, const proto::StoredInode& inode) {
    const auto above = all_.find(InodeId{inode.parent()});
    return above == all_.end() || above->second.bin() != at.value;
  });
  return end == WalkEnd::kStopped;
}

Result<InodeId> Trash::nearest(const Reader& reader, std::string_view text) const {
  KINTSUGI_ASSIGN(const Path path, Path::parse(text));
  std::vector<InodeId> trail;
  const auto found = walk(reader, path.names, &trail);
  if (!found) return found.error();
  for (size_t depth = trail.size(); depth-- > 0;)
    if (all_.contains(trail[depth])) return trail[depth];
  return Status{Code::kNotFound, path_text(path.names) + " has no trash, nor has a directory above it"};
}

Result<proto::ListTrashResponse> Trash::list(const Transaction& transaction, std::string_view path,
                                             std::string_view after, uint32_t limit) const {
  const Reader& reader = transaction.store();
  if (after.size() > kMaxNameBytes)
    return Status{Code::kInvalidArgument, "the name to continue after is too long"};
  KINTSUGI_ASSIGN(const InodeId directory, nearest(reader, path));
  const proto::StoredTrash& trash = all_.at(directory);
  limit = std::min(limit == 0 ? kDefaultListEntries : limit, kMaxListEntries);
  proto::ListTrashResponse response;
  response.set_directory(path_of(reader, directory, trash.path()));
  response.set_retention_ns(trash.retention_ns());
  std::map<uint64_t, std::string> paths;
  keys::Range range = keys::all(keys::Kind::kTrashed, directory.value);
  if (!after.empty()) range.begin = keys::trashed(directory, after) + '\0';
  reader.scan(range, [&](std::string_view key, std::string_view value) {
    if (static_cast<uint32_t>(response.entries_size()) == limit) {
      response.set_more(true);
      return false;
    }
    const auto stored = Reader::parse<proto::StoredTrashed>(value);
    const auto inode = reader.get_message<proto::StoredInode>(keys::inode(InodeId{stored.inode()}));
    if (!inode) return true;
    std::string& parent = paths[stored.parent()];
    if (parent.empty()) parent = path_of(reader, InodeId{stored.parent()}, "");
    proto::Trashed& entry = *response.add_entries();
    entry.set_entry(std::string(keys::name_of_trashed(key)));
    entry.set_path(join(parent, stored.name()));
    entry.set_removed_ns(stored.removed_ns());
    entry.set_expires_ns(expiry(stored.removed_ns(), trash.retention_ns()));
    *entry.mutable_attributes() = to_attributes(InodeId{stored.inode()}, *inode);
    return true;
  });
  return response;
}

std::optional<InodeId> Trash::destination(const Reader& reader,
                                          const proto::RestoreTrashRequest& request) const {
  if (!request.to().empty()) {
    const auto to = Path::parse(request.to());
    if (!to || to->is_root()) return std::nullopt;
    const auto parent = walk_to_parent(reader, *to);
    return parent ? std::optional(*parent) : std::nullopt;
  }
  const auto directory = nearest(reader, request.path());
  if (!directory || request.entry().size() > kMaxNameBytes) return std::nullopt;
  const auto stored = reader.get_message<proto::StoredTrashed>(keys::trashed(*directory, request.entry()));
  return stored ? std::optional(InodeId{stored->parent()}) : std::nullopt;
}

Result<std::string> Trash::restore(Transaction& transaction, const Inodes& inodes,
                                   const proto::RestoreTrashRequest& request, FreedStripes& freed) const {
  const Reader& reader = transaction.store();
  KINTSUGI_ASSIGN(const InodeId directory, nearest(reader, request.path()));
  if (request.entry().size() > kMaxNameBytes)
    return Status{Code::kNameTooLong, "no entry has so long a name"};
  const auto stored = reader.get_message<proto::StoredTrashed>(keys::trashed(directory, request.entry()));
  const auto from = bin(transaction, directory);
  if (!stored || !from) return Status{Code::kNotFound, "the trash has no entry " + request.entry()};
  InodeId parent{stored->parent()};
  std::string name = stored->name(), path;
  if (!request.to().empty()) {
    KINTSUGI_ASSIGN(const Path to, Path::parse(request.to()));
    if (to.is_root()) return Status{Code::kAlreadyExists, "/ exists already"};
    KINTSUGI_ASSIGN(parent, walk_to_parent(reader, to));
    name = to.names.back();
    path = path_text(to.names);
  } else {
    const auto inode = reader.get_message<proto::StoredInode>(keys::inode(parent));
    if (!inode || inode->links() == 0 || lies_in_bin(reader, parent))
      return Status{Code::kNotFound,
                    "the directory that it was in does not exist any more: say where it goes to"};
    path = join(path_of(reader, parent, ""), name);
  }
  ops::Move back{*from, request.entry(), parent, name, ops::Target::kMustNotExist};
  const Status moved = ops::move(inodes, transaction, Caller::root(), back, freed);
  if (!moved.ok()) return Status{moved.code(), path + " " + moved.message()};
  transaction.remove(keys::trashed(directory, request.entry()));
  return path;
}

void Trash::remove(Transaction& transaction, const Inodes& inodes, InodeId directory,
                   const std::vector<std::string>& entries, const Held& held, FreedStripes& freed) const {
  const auto from = bin(transaction, directory);
  for (const std::string& entry : entries) {
    const auto stored = transaction.get_message<proto::StoredTrashed>(keys::trashed(directory, entry));
    transaction.remove(keys::trashed(directory, entry));
    // Somebody may have taken it out or away, as out of any other directory.
    const auto there = from ? find_entry(transaction, *from, entry) : std::nullopt;
    if (!stored || !there || there->id.value != stored->inode()) continue;
    ops::Unlink what{.parent = *from, .name = entry, .recursive = true, .held = held};
    const Status unlinked = ops::unlink(inodes, transaction, Caller::root(), what, freed);
    // A directory with snapshots stays where it is; nothing was changed for it.
    if (!unlinked.ok()) continue;
  }
}

Result<bool> Trash::empty(Transaction& transaction, const Inodes& inodes, std::string_view path,
                          std::string_view entry, const Held& held, FreedStripes& freed) const {
  KINTSUGI_ASSIGN(const InodeId directory, nearest(transaction.store(), path));
  std::vector<std::string> entries;
  if (!entry.empty()) {
    if (entry.size() > kMaxNameBytes || !transaction.get(keys::trashed(directory, entry)))
      return Status{Code::kNotFound, "the trash has no entry " + std::string(entry)};
    entries.emplace_back(entry);
  } else {
    transaction.scan(keys::all(keys::Kind::kTrashed, directory.value),
                     [&](std::string_view key, std::string_view) {
                       entries.emplace_back(keys::name_of_trashed(key));
                       return entries.size() < kTrashAStep;
                     });
  }
  remove(transaction, inodes, directory, entries, held, freed);
  return entry.empty() && entries.size() == kTrashAStep;
}

bool Trash::expire_step(Transaction& transaction, const Inodes& inodes, const Held& held,
                        FreedStripes& freed) {
  for (const auto& [directory, trash] : all_) {
    const auto inode = transaction.get_message<proto::StoredInode>(keys::inode(directory));
    const bool gone = !inode || inode->links() == 0;
    const int64_t until = gone ? INT64_MAX : inodes.now_ns() - trash.retention_ns();
    std::vector<std::string> due;
    bool any = false;
    keys::Range range = keys::all(keys::Kind::kTrashed, directory.value);
    // What the steps before have removed is not passed over once more.
    if (directory == expiring_) range.begin = expired_up_to_ + '\0';
    transaction.scan(range, [&](std::string_view key, std::string_view value) {
      any = true;
      if (Reader::parse<proto::StoredTrashed>(value).removed_ns() > until) return false;
      due.emplace_back(keys::name_of_trashed(key));
      return due.size() < kTrashAStep;
    });
    if (!due.empty()) {
      expiring_ = directory;
      expired_up_to_ = keys::trashed(directory, due.back());
      remove(transaction, inodes, directory, due, held, freed);
      return true;
    }
    if (directory == expiring_) {
      expiring_ = {};  // the clock may have been set back: begin again
      return true;
    }
    if (!gone && trash.retention_ns() > 0) {
      // Somebody has removed it.
      if (bin(transaction, directory) || !make_bin(transaction, inodes, directory, trash).ok()) continue;
      return true;
    }
    if (any) continue;
    // Nothing is kept any more, and nothing is left. An empty `.trash` goes with it.
    const auto left = gone ? std::nullopt : bin(transaction, directory);
    if (left && is_empty_directory(transaction.store(), *left))
      (void)ops::unlink(inodes, transaction, Caller::root(), {.parent = directory, .name = kTrashName},
                        freed);
    transaction.remove(keys::trash(directory));
    return true;
  }
  return false;
}

}  // namespace kintsugi::metaserver
