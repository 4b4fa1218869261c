#include "metaserver/namespace/snapshot_saving.h"

#include <map>
#include <set>

#include "metaserver/namespace/inodes.h"
#include "metaserver/schema/extents.h"
#include "metaserver/schema/snapshot_view.h"

namespace kintsugi::metaserver {
namespace {

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

/// One transaction's work of saving.
class Saving {
 public:
  Saving(const Snapshots& snapshots, Transaction& transaction, FreedStripes& freed)
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
  struct Refs {
    uint64_t extents = 0, bytes = 0;
  };
  /// What a record of an inode is in.
  struct Cover {
    uint64_t newest = 0;  ///< 0: in no snapshot
    uint64_t born = 0;
    bool in_any = false;
  };

  /// Counts what saved extents name. Stripes that the transaction has freed come back.
  void refer() {
    std::map<StripeId, size_t> places;  // stripe -> its index in freed_
    for (size_t i = 0; i < freed_.size() && !references_.empty(); ++i)
      places[freed_[i].first] = i;
    std::set<StripeId> back;
    for (const auto& [number, refs] : references_) {
      const StripeId id{number};
      auto stripe = transaction_.get_message<proto::StoredStripe>(keys::stripe(id));
      if (!stripe) {
        const auto found = places.find(id);
        KINTSUGI_ASSERT(found != places.end());  // the extent named the stripe until now
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
    std::optional<proto::StoredInode> now;
    if (value) now = Reader::parse<proto::StoredInode>(*value);
    if (const auto old = before_.get_message<proto::StoredInode>(key)) {
      changed(key, *old, std::move(now));
    } else if (now) {
      made(key, std::move(*now));
    }
  }

  void changed(const std::string& key, const proto::StoredInode& old, std::optional<proto::StoredInode> now) {
    const InodeId id{keys::first_id(key)};
    const Cover cover = cover_of(id);
    contents_.insert_or_assign(content_of(id, old), cover);
    // What had no name was in no snapshot, but its content may have been.
    if (old.links() == 0) return;
    save(key, cover);
    if (!now || now->links() > 0) return;
    // The directories above may be gone before it is: from now on it is found by the one whose snapshots it is in.
    const auto domains = snapshots_.domains_above(before_, is_directory(old) ? id : InodeId{old.parent()});
    now->set_parent((domains.empty() ? kRootInode : domains.front()).value);
    now->set_gone(snapshots_.newest(UINT64_MAX));
    transaction_.put_message(key, *now);
  }

  void made(const std::string& key, proto::StoredInode now) {
    const InodeId id{keys::first_id(key)};
    // What another inode leaves to this one is as old as it was there.
    if (now.links() == 0 && now.content() != 0) {
      now.set_gone(snapshots_.newest(UINT64_MAX));
    } else {
      now.set_born(snapshots_.newest(UINT64_MAX));
      contents_.insert_or_assign(content_of(id, now), Cover{});
    }
    transaction_.put_message(key, now);
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
        keeps_.try_emplace(cover.newest, *snapshots_.with_number(cover.newest)).first->second;
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
  std::map<uint64_t, Refs> references_;              ///< key: stripe
  std::map<uint64_t, proto::StoredSnapshot> keeps_;  ///< records of the snapshots that keep more, by number
};

}  // namespace

void save_for_snapshots(const Snapshots& snapshots, Transaction& transaction, FreedStripes& freed) {
  if (snapshots.newest(UINT64_MAX) == 0) return;
  Saving(snapshots, transaction, freed).run();
}

}  // namespace kintsugi::metaserver
