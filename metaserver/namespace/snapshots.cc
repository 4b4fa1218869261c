#include "metaserver/namespace/snapshots.h"

#include <algorithm>

#include <fmt/format.h>

#include "metaserver/namespace/ancestors.h"
#include "metaserver/namespace/inodes.h"
#include "metaserver/namespace/lookup.h"
#include "metaserver/schema/extents.h"

namespace kintsugi::metaserver {
namespace {

constexpr size_t kValuesAStep = 64;
constexpr std::string_view kCounter = "snapshot";

bool is_extent(std::string_view key) {
  return static_cast<keys::Kind>(key[0]) == keys::Kind::kExtent;
}

/// Has a stripe that the transaction has freed be there again, without references.
void bring_back(Transaction& transaction, StripeId id, proto::StoredStripe& stripe) {
  for (int i = 0; i < stripe.chunks_size(); ++i) {
    const ServerId server{stripe.chunks(i).server_id()};
    const ChunkId chunk{id, static_cast<uint32_t>(i)};
    transaction.leave(keys::server_chunk(server, chunk));
    if (server) transaction.leave(keys::garbage(server, chunk));
  }
  adjust_totals(transaction, 0, 0, 1, static_cast<int64_t>(stripe.inline_data().size()));
  stripe.set_references(0);
  stripe.set_live_bytes(0);
}

/// A saved extent is forgotten.
void drop_reference(Transaction& transaction, const proto::StoredExtent& extent, FreedStripes& freed) {
  const StripeId id{extent.stripe_id()};
  auto stripe = transaction.get_message<proto::StoredStripe>(keys::stripe(id));
  KINTSUGI_ASSERT(stripe && stripe->references() > 0);
  stripe->set_references(stripe->references() - 1);
  stripe->set_live_bytes(stripe->live_bytes() - std::min(stripe->live_bytes(), extent.length()));
  transaction.put_message(keys::stripe(id), *stripe);
  if (stripe->references() == 0) free_stripe(transaction, id, freed);
}

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

/// One transaction's work of saving.
class Snapshots::Preserving {
 public:
  Preserving(const Snapshots& snapshots, Transaction& transaction, FreedStripes& freed)
      : snapshots_(snapshots), transaction_(transaction), before_(transaction.store()), freed_(freed) {}

  void run() {
    for (const auto& [key, value] : transaction_.written(keys::all(keys::Kind::kInode)))
      inode(key, value);
    for (const keys::Kind kind : {keys::Kind::kEntry, keys::Kind::kXattr})
      for (const auto& [key, value] : transaction_.written(keys::all(kind)))
        save(key, cover_of(InodeId{keys::first_id(key)}));
    for (const auto& [key, value] : transaction_.written(keys::all(keys::Kind::kExtent)))
      save(key, cover_of_content(InodeId{keys::first_id(key)}));
    refer();
    for (const auto& [number, snapshot] : keeps_)
      transaction_.put_message(keys::snapshot(number), snapshot);
  }

 private:
  /// What a record of an inode is in.
  struct Cover {
    uint64_t newest = 0;  ///< 0: in no snapshot
    uint64_t born = 0;
    bool in_any = false;
  };

  /// Counts what saved extents name. Stripes that the transaction has freed come back.
  void refer() {
    std::map<StripeId, size_t> places;  // in freed_
    for (size_t i = 0; i < freed_.size() && !references_.empty(); ++i)
      places[freed_[i].first] = i;
    std::set<StripeId> back;
    for (const auto& [number, refs] : references_) {
      const StripeId id{number};
      auto stripe = transaction_.get_message<proto::StoredStripe>(keys::stripe(id));
      if (!stripe) {
        const auto found = places.find(id);
        KINTSUGI_ASSERT(found != places.end());  // the extent named it until now
        stripe = std::move(freed_[found->second].second);
        bring_back(transaction_, id, *stripe);
        back.insert(id);
      }
      stripe->set_references(stripe->references() + refs.extents);
      stripe->set_live_bytes(stripe->live_bytes() + refs.bytes);
      transaction_.put_message(keys::stripe(id), *stripe);
    }
    std::erase_if(freed_, [&](const auto& stripe) { return back.contains(stripe.first); });
  }

  void inode(const std::string& key, const std::optional<std::string>& value) {
    const InodeId id{keys::first_id(key)};
    const auto old = before_.get_message<proto::StoredInode>(key);
    std::optional<proto::StoredInode> now;
    if (value) now = Reader::parse<proto::StoredInode>(*value);
    if (old) {
      const Cover cover = cover_of(id);
      contents_.insert_or_assign(content_of(id, *old), cover);
      // What had no name was in no snapshot, but its content may have been.
      if (old->links() > 0) save(key, cover);
      if (now && old->links() > 0 && now->links() == 0) {
        // The directories above may be gone before it is: from now on it is found by the one whose snapshots it is in.
        const auto domains =
            snapshots_.domains_above(before_, is_directory(*old) ? id : InodeId{old->parent()});
        now->set_parent((domains.empty() ? kRootInode : domains.front()).value);
        now->set_gone(snapshots_.newest(UINT64_MAX));
        transaction_.put_message(key, *now);
      }
    } else if (now) {
      // What another inode leaves to this one is as old as it was there.
      const bool left_over = now->links() == 0 && now->content() != 0;
      if (left_over) {
        now->set_gone(snapshots_.newest(UINT64_MAX));
      } else {
        now->set_born(snapshots_.newest(UINT64_MAX));
        contents_.insert_or_assign(content_of(id, *now), Cover{});
      }
      transaction_.put_message(key, *now);
    }
  }

  Cover cover_of(InodeId id) {
    if (const auto known = covers_.find(id); known != covers_.end()) return known->second;
    Cover cover;
    if (const auto inode = before_.get_message<proto::StoredInode>(keys::inode(id))) {
      const bool directory = is_directory(*inode);
      const uint64_t up_to = inode->links() == 0 ? inode->gone() : UINT64_MAX;
      bool complete = directory || (!inode->linked() && inode->links() <= 1 && inode->parent() != 0);
      if (complete) {
        for (InodeId domain :
             snapshots_.domains_above(before_, directory ? id : InodeId{inode->parent()}, &complete))
          cover.newest = std::max(cover.newest, snapshots_.newest_of(domain, up_to));
      }
      cover.in_any = !complete;
      if (!complete) cover.newest = snapshots_.newest(up_to);
      cover.born = inode->born();
      if (cover.newest <= cover.born) cover.newest = 0;
    }
    covers_.emplace(id, cover);
    return cover;
  }

  Cover cover_of_content(InodeId content) {
    if (const auto known = contents_.find(content); known != contents_.end()) return known->second;
    const auto inode = before_.get_message<proto::StoredInode>(keys::inode(content));
    if (inode && content_of(content, *inode) == content) return cover_of(content);
    return {snapshots_.newest(UINT64_MAX), 0, true};
  }

  void save(const std::string& key, const Cover& cover) {
    if (cover.newest == 0 || find_saved(before_.view(), key, cover.newest)) return;
    SavedValue saved{before_.get(key), cover.born, cover.in_any};
    proto::StoredSnapshot& snapshot =
        keeps_.try_emplace(cover.newest, snapshots_.all_.at(cover.newest)).first->second;
    snapshot.set_kept_records(snapshot.kept_records() + 1);
    if (saved.value && is_extent(key)) {
      const auto extent = Reader::parse<proto::StoredExtent>(*saved.value);
      Refs& refs = references_[extent.stripe_id()];
      ++refs.extents;
      refs.bytes += extent.length();
      snapshot.set_kept_bytes(snapshot.kept_bytes() + extent.length());
    }
    const keys::SavedKey at{key, cover.newest};
    transaction_.put(at.value(), saved.serialise());
    transaction_.put(at.listed(), "");
  }

  const Snapshots& snapshots_;
  Transaction& transaction_;
  const Reader& before_;
  FreedStripes& freed_;
  std::map<InodeId, Cover> covers_, contents_;
  std::map<uint64_t, Refs> references_;              ///< by stripe
  std::map<uint64_t, proto::StoredSnapshot> keeps_;  ///< snapshots that keep more, by number
};

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
  for (const auto& [key, value] : transaction.written(keys::all(keys::Kind::kSavedFor)))
    if (!value) deleted_up_to_ = key;
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

void Snapshots::preserve(Transaction& transaction, FreedStripes& freed) const {
  if (newest(UINT64_MAX) == 0) return;
  Preserving(*this, transaction, freed).run();
}

bool Snapshots::delete_step(Transaction& transaction, FreedStripes& freed) const {
  const auto deleting =
      std::find_if(all_.begin(), all_.end(), [](const auto& snapshot) { return snapshot.second.deleting(); });
  if (deleting == all_.end()) return false;
  const uint64_t number = deleting->first;
  const InodeId directory{deleting->second.directory()};
  // Older ones that may contain what is in this one: their directories lie above its own, or below.
  std::set<uint64_t> kin, any;
  const std::vector<InodeId> above = domains_above(transaction.store(), directory);
  for (auto it = all_.begin(); it != deleting; ++it) {
    if (it->second.deleting()) continue;
    any.insert(it->first);
    const InodeId other{it->second.directory()};
    const auto over = domains_above(transaction.store(), other);
    if (std::find(above.begin(), above.end(), other) != above.end() ||
        std::find(over.begin(), over.end(), directory) != over.end())
      kin.insert(it->first);
  }
  std::vector<keys::SavedKey> found;
  keys::Range left = keys::SavedKey::listed_for(number);
  // Nothing more is saved for it, so what was deleted up to here need not be passed over again.
  if (deleted_up_to_ > left.begin && deleted_up_to_ < left.end) left.begin = deleted_up_to_ + '\0';
  transaction.scan(left, [&](std::string_view key, std::string_view) {
    found.push_back(keys::SavedKey::of_listed(key));
    return found.size() < kValuesAStep;
  });
  proto::StoredSnapshot gives = deleting->second;
  std::map<uint64_t, proto::StoredSnapshot> heirs;
  for (const keys::SavedKey& at : found) {
    const auto bytes = transaction.get(at.value());
    KINTSUGI_ASSERT(bytes);
    SavedValue saved = SavedValue::parse(*bytes);
    uint64_t older = saved.born;  // the newest one before this that needs nothing of it
    const keys::Range before = keys::SavedKey::values_of(at.key, 0, number);
    transaction.scan(before, [&](std::string_view other, std::string_view) {
      older = std::max(older, keys::SavedKey::of_value(other).number);
      return true;
    });
    const std::set<uint64_t>& candidates = saved.in_any ? any : kin;
    const auto heir =
        candidates.upper_bound(older) == candidates.end() ? candidates.end() : std::prev(candidates.end());
    transaction.remove(at.value());
    transaction.remove(at.listed());
    const bool extent = saved.value && is_extent(at.key);
    const uint64_t length = extent ? Reader::parse<proto::StoredExtent>(*saved.value).length() : 0;
    if (heir != candidates.end()) {
      const keys::SavedKey inherited{at.key, *heir};
      proto::StoredSnapshot& takes = heirs.try_emplace(*heir, all_.at(*heir)).first->second;
      // The kin of an heir further down are not all that may need it: it may be of another directory beside the heir's.
      if (std::find(above.begin(), above.end(), InodeId{takes.directory()}) == above.end())
        saved.in_any = true;
      transaction.put(inherited.value(), saved.serialise());
      transaction.put(inherited.listed(), "");
      takes.set_kept_records(takes.kept_records() + 1);
      takes.set_kept_bytes(takes.kept_bytes() + length);
    } else if (extent) {
      drop_reference(transaction, Reader::parse<proto::StoredExtent>(*saved.value), freed);
    }
    gives.set_kept_records(gives.kept_records() - std::min<uint64_t>(gives.kept_records(), 1));
    gives.set_kept_bytes(gives.kept_bytes() - std::min(gives.kept_bytes(), length));
  }
  for (const auto& [other, takes] : heirs)
    transaction.put_message(keys::snapshot(other), takes);
  if (found.size() == kValuesAStep) {
    transaction.put_message(keys::snapshot(number), gives);
  } else {
    transaction.remove(keys::snapshot(number));
  }
  return true;
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
