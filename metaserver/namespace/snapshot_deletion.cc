#include "metaserver/namespace/snapshot_deletion.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "metaserver/schema/extents.h"
#include "metaserver/schema/snapshot_view.h"

namespace kintsugi::metaserver {
namespace {

constexpr size_t kValuesAStep = 64;

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

/// One step: some records of one snapshot.
class Step {
 public:
  Step(const Snapshots& snapshots, uint64_t number, Transaction& transaction, FreedStripes& freed)
      : snapshots_(snapshots),
        number_(number),
        transaction_(transaction),
        freed_(freed),
        deleted_(*snapshots.with_number(number)),
        above_(snapshots.domains_above(transaction.store(), InodeId{deleted_.directory()})) {
    const InodeId directory{deleted_.directory()};
    for (const auto& [other, snapshot] : snapshots.all()) {
      if (other >= number) break;
      if (snapshot.deleting()) continue;
      any_.insert(other);
      const InodeId others{snapshot.directory()};
      const auto over = snapshots.domains_above(transaction.store(), others);
      if (is_above(others) || std::ranges::find(over, directory) != over.end()) kin_.insert(other);
    }
  }

  void pass_on(const std::vector<keys::SavedKey>& records) {
    for (const keys::SavedKey& at : records)
      pass_on(at);
    for (const auto& [other, takes] : heirs_)
      transaction_.put_message(keys::snapshot(other), takes);
  }
  /// What it has kept so far is stored, or nothing is left of it.
  void finish(bool all) {
    if (all) {
      transaction_.remove(keys::snapshot(number_));
    } else {
      transaction_.put_message(keys::snapshot(number_), deleted_);
    }
  }

 private:
  bool is_above(InodeId directory) const { return std::ranges::find(above_, directory) != above_.end(); }

  void pass_on(const keys::SavedKey& at) {
    const auto bytes = transaction_.get(at.value());
    KINTSUGI_ASSERT(bytes);
    SavedValue saved = SavedValue::parse(*bytes);
    const std::optional<uint64_t> heir = heir_of(at, saved);
    transaction_.remove(at.value());
    transaction_.remove(at.listed());
    const bool extent = saved.value && is_extent(at.key);
    const uint64_t length = extent ? Reader::parse<proto::StoredExtent>(*saved.value).length() : 0;
    if (heir) {
      const keys::SavedKey inherited{at.key, *heir};
      proto::StoredSnapshot& takes = heirs_.try_emplace(*heir, *snapshots_.with_number(*heir)).first->second;
      // The kin of an heir further down are not all that may need it: it may be of another directory beside the heir's.
      if (!is_above(InodeId{takes.directory()})) saved.in_any = true;
      transaction_.put(inherited.value(), saved.serialise());
      transaction_.put(inherited.listed(), "");
      takes.set_kept_records(takes.kept_records() + 1);
      takes.set_kept_bytes(takes.kept_bytes() + length);
    } else if (extent) {
      drop_reference(transaction_, Reader::parse<proto::StoredExtent>(*saved.value), freed_);
    }
    deleted_.set_kept_records(deleted_.kept_records() - std::min<uint64_t>(deleted_.kept_records(), 1));
    deleted_.set_kept_bytes(deleted_.kept_bytes() - std::min(deleted_.kept_bytes(), length));
  }

  /// The newest older snapshot that needs the record.
  std::optional<uint64_t> heir_of(const keys::SavedKey& at, const SavedValue& saved) const {
    uint64_t older = saved.born;  // newest older snapshot that is known not to need the record
    scan_saved(transaction_.store().view(), at.key, 0, number_, [&](uint64_t other, std::string_view) {
      older = std::max(older, other);
      return true;
    });
    const std::set<uint64_t>& candidates = saved.in_any ? any_ : kin_;
    if (candidates.upper_bound(older) == candidates.end()) return std::nullopt;
    return *candidates.rbegin();
  }

  const Snapshots& snapshots_;
  const uint64_t number_;
  Transaction& transaction_;
  FreedStripes& freed_;
  proto::StoredSnapshot deleted_;
  const std::vector<InodeId> above_;  ///< directories that have snapshots and lie above its own
  /// Older ones, and those that may contain what is in this one: their directories lie above its own, or below.
  std::set<uint64_t> any_, kin_;
  std::map<uint64_t, proto::StoredSnapshot> heirs_;  ///< records of the snapshots that keep more, by number
};

}  // namespace

bool SnapshotDeletion::step(const Snapshots& snapshots, Transaction& transaction, FreedStripes& freed) {
  const auto deleting =
      std::ranges::find_if(snapshots.all(), [](const auto& snapshot) { return snapshot.second.deleting(); });
  if (deleting == snapshots.all().end()) return false;
  keys::Range left = keys::SavedKey::listed_for(deleting->first);
  // Nothing more is saved for it, so what was deleted up to here need not be passed over again: unless the step before
  // was not stored.
  const bool goes_on = up_to_ > left.begin && up_to_ < left.end && !transaction.get(up_to_);
  if (goes_on) left.begin = up_to_ + '\0';
  std::vector<keys::SavedKey> found;
  transaction.scan(left, [&](std::string_view key, std::string_view) {
    found.push_back(keys::SavedKey::of_listed(key));
    return found.size() < kValuesAStep;
  });
  Step step(snapshots, deleting->first, transaction, freed);
  step.pass_on(found);
  step.finish(found.size() < kValuesAStep);
  if (!found.empty()) up_to_ = found.back().listed();
  return true;
}

}  // namespace kintsugi::metaserver
