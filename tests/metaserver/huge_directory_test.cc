// What is done in steps to a directory of very many names stays as cheap from step to step: a step reads a bounded part, and does
// not pass over all that former steps have removed.
#include <map>
#include <set>

#include "metaserver/namespace/snapshot_deletion.h"
#include "metaserver/namespace/snapshot_saving.h"
#include "metaserver/namespace/trash.h"
#include "metaserver/schema/extents.h"
#include "tests/metaserver/namespace_rig.h"

namespace kintsugi::metaserver {
namespace {

constexpr int kFiles = 2000;
constexpr size_t kAStep = 300;  ///< removed keys that one step may pass over

/// The store as it is for RocksDB, which passes over what was removed, key by key, until it is compacted.
class WithRemovedKeys final : public ReadView {
 public:
  explicit WithRemovedKeys(const ReadView& store) : store_(store) {}

  std::optional<std::string> get(std::string_view key) const override { return store_.get(key); }
  void scan(std::string_view begin, std::string_view end,
            const std::function<bool(std::string_view, std::string_view)>& visit) const override {
    std::string last(end);
    store_.scan(begin, end, [&](std::string_view key, std::string_view value) {
      const bool more = visit(key, value);
      if (!more) last = key;
      return more;
    });
    const auto first = removed_.lower_bound(begin), behind = removed_.lower_bound(last);
    passed_ += static_cast<size_t>(std::distance(first, behind));
  }
  void note(const Batch& batch) {
    for (const Batch::Write& write : batch.writes)
      if (!write.value) removed_.insert(write.key);
  }
  size_t take_passed() { return std::exchange(passed_, 0); }

 private:
  const ReadView& store_;
  std::set<std::string, std::less<>> removed_;
  mutable size_t passed_ = 0;
};

class HugeDirectory : public testing::Test {
 protected:
  void SetUp() override {
    rig.inodes = std::make_unique<Inodes>(*rig.ids, rig.runtime->clock, &snapshots, &trash);
    rig.names = std::make_unique<Namespace>(*rig.ids, *rig.inodes);
    KINTSUGI_ASSERT_OK(rig.make_directory("/d"));
    for (int i = 0; i < kFiles; ++i)
      KINTSUGI_ASSERT_OK(rig.put(fmt::format("/d/f{:04}", i)));
  }
  /// Repeats `step` until it returns false.
  template <class Step>
  void run_steps(Step step) {
    WithRemovedKeys view(*rig.store);
    int steps = 0;
    for (bool more = true; more; ++steps) {
      Transaction transaction(view);
      more = step(transaction);
      // One that finds nothing to do may look at all once more, to be sure.
      const size_t passed = view.take_passed();
      if (!transaction.empty()) EXPECT_LE(passed, kAStep) << "in step " << steps;
      snapshots.follow(transaction);
      trash.follow(transaction);
      Batch batch = transaction.take();
      view.note(batch);
      KINTSUGI_ASSERT_OK(rig.simulation.run(rig.store->commit(std::move(batch))));
    }
    EXPECT_GT(steps, 10) << "that is no work in steps";
  }
  static bool nobody(InodeId) { return false; }

  NamespaceRig rig;
  Snapshots snapshots;
  Trash trash;
};

TEST_F(HugeDirectory, IsReclaimedInStepsThatCostTheSame) {
  KINTSUGI_ASSERT_OK(rig.remove("/d", true));
  Reclaim reclaim;
  run_steps([&](Transaction& transaction) { return reclaim.step(transaction, nobody, rig.freed); });
  EXPECT_EQ(rig.totals().files(), 0u);
  EXPECT_EQ(rig.count(keys::Kind::kOrphan), 0u);
}

TEST_F(HugeDirectory, AFileOfVeryManyExtentsIsReclaimedInStepsThatCostTheSame) {
  const InodeId id{rig.stat("/d/f0000")->inode()};
  Transaction fill(*rig.store);
  proto::StoredInode inode = load_inode(*rig.store, id);
  proto::StoredStripe stripe;
  stripe.set_length(kFiles);
  add_stripe(fill, StripeId{77}, stripe);
  ExtentWriter writer(fill, content_of(id, inode));
  for (uint64_t i = 0; i < kFiles; ++i) {
    proto::Extent extent;
    extent.set_file_offset(1'000'000 + 2 * i);
    extent.set_length(1);
    extent.set_stripe_id(77);
    extent.set_stripe_offset(i);
    writer.put(extent);
  }
  writer.finish(inode, rig.freed);
  fill.put_message(keys::inode(id), inode);
  rig.commit(fill);
  KINTSUGI_ASSERT_OK(rig.remove("/d/f0000"));
  Reclaim reclaim;
  run_steps([&](Transaction& transaction) { return reclaim.step(transaction, nobody, rig.freed); });
  EXPECT_EQ(rig.count(keys::Kind::kOrphan), 0u);
  EXPECT_FALSE(load_stripe(*rig.store, StripeId{77}));
}

TEST_F(HugeDirectory, TwoAreReclaimedOneAfterTheOtherWhateverComesBetween) {
  KINTSUGI_ASSERT_OK(rig.make_directory("/e"));
  for (int i = 0; i < kFiles; ++i)
    KINTSUGI_ASSERT_OK(rig.put(fmt::format("/e/f{:04}", i)));
  KINTSUGI_ASSERT_OK(rig.remove("/e", true));  // has the greater id, and is begun first
  Reclaim reclaim;
  int steps = 0;
  run_steps([&](Transaction& transaction) {
    if (++steps == 5) KINTSUGI_EXPECT_OK(rig.remove("/d", true));
    return reclaim.step(transaction, nobody, rig.freed);
  });
  EXPECT_EQ(rig.totals().files(), 0u);
  EXPECT_EQ(rig.count(keys::Kind::kOrphan), 0u);
}

TEST_F(HugeDirectory, OrphansThatSomebodyHoldsAreLookedAtALittleAtATime) {
  const int held = static_cast<int>(Reclaim::kMaxExamined) + 500;
  const auto hold = [](InodeId) { return true; };
  std::set<uint64_t> ids;
  for (int i = 0; i < held; ++i) {
    const std::string path = fmt::format("/d/f{:04}", i);
    ids.insert(rig.stat(path)->inode());
    Transaction transaction(*rig.store);
    DropOptions options;
    options.held = hold;
    const auto entry = walk(Reader(*rig.store), Path::parse(path)->names);
    drop_name(transaction, *entry, options, rig.freed);
    transaction.remove(keys::entry(InodeId{rig.stat("/d")->inode()}, path.substr(3)));
    rig.commit(transaction);
  }
  // Only the last one is not held any more.
  const uint64_t last = *ids.rbegin();
  size_t asked = 0;
  const auto all_but_last = [&](InodeId id) {
    ++asked;
    return id.value != last;
  };
  Reclaim reclaim;
  int steps = 0;
  for (bool more = false; !more && steps < 10; ++steps) {
    Transaction transaction(*rig.store);
    asked = 0;
    more = reclaim.step(transaction, all_but_last, rig.freed);
    EXPECT_LE(asked, Reclaim::kMaxExamined);
    rig.commit(transaction);
  }
  EXPECT_EQ(rig.count(keys::Kind::kOrphan), static_cast<size_t>(held - 1)) << "it is found in the end";
}

TEST_F(HugeDirectory, ItsSnapshotIsDeletedInStepsThatCostTheSame) {
  const auto changed = [&](auto operation) {
    KINTSUGI_ASSERT_OK(rig.apply([&](Transaction& transaction) {
      const Status status = operation(transaction);
      if (status.ok()) save_for_snapshots(snapshots, transaction, rig.freed);
      if (status.ok()) snapshots.follow(transaction);
      return status;
    }));
  };
  changed([&](Transaction& t) { return snapshots.create(t, "/d", "s", 1, rig.ids->next()); });
  for (int i = 0; i < kFiles; ++i)
    changed(
        [&](Transaction& t) { return rig.names->remove(t, fmt::format("/d/f{:04}", i), false, rig.freed); });
  EXPECT_GE(rig.count(keys::Kind::kSavedFor), static_cast<size_t>(kFiles));
  changed([&](Transaction& t) { return snapshots.remove(t, "/d", "s"); });
  SnapshotDeletion deletion;
  run_steps([&](Transaction& transaction) { return deletion.step(snapshots, transaction, rig.freed); });
  EXPECT_EQ(rig.count(keys::Kind::kSavedFor), 0u);
}

TEST_F(HugeDirectory, WhatIsInTheTrashExpiresInStepsThatCostTheSame) {
  KINTSUGI_ASSERT_OK(rig.apply([&](Transaction& t) {
    const Status set = trash.set(t, *rig.inodes, "/d", 1'000'000'000);
    if (set.ok()) trash.follow(t);
    return set;
  }));
  for (int i = 0; i < kFiles; ++i)
    KINTSUGI_ASSERT_OK(rig.remove(fmt::format("/d/f{:04}", i)));
  EXPECT_EQ(rig.count(keys::Kind::kTrashed), static_cast<size_t>(kFiles));
  rig.simulation.run_for(2s);
  run_steps([&](Transaction& transaction) {
    return trash.expire_step(transaction, *rig.inodes, nobody, rig.freed);
  });
  EXPECT_EQ(rig.count(keys::Kind::kTrashed), 0u);
}

TEST_F(HugeDirectory, APageOfAttributesIsShortAndSaysThatThereIsMore) {
  const Transaction transaction(*rig.store);
  const InodeId directory{rig.stat("/d")->inode()};
  const auto names = Inodes::list(transaction, directory, "", kMaxListEntries, true);
  ASSERT_TRUE(names);
  EXPECT_EQ(names->entries_size(), kFiles);
  std::string after;
  int listed = 0;
  for (bool more = true; more;) {
    const auto page = Inodes::list(transaction, directory, after, kMaxListEntries, false);
    ASSERT_TRUE(page);
    EXPECT_LE(page->entries_size(), static_cast<int>(kMaxListAttributes));
    listed += page->entries_size();
    more = page->more();
    if (more) after = page->entries(page->entries_size() - 1).name();
  }
  EXPECT_EQ(listed, kFiles);
}

}  // namespace
}  // namespace kintsugi::metaserver
