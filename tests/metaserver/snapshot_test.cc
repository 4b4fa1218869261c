// Snapshots of directories: what they show stays as it was whatever happens, nothing in them can be changed, and what they keep
// is freed with the last one that needs it.
#include "tests/metaserver/snapshot_rig.h"

namespace kintsugi::metaserver {
namespace {

TEST(Snapshots, ShowWhatWasThereAndCannotBeChanged) {
  SnapshotRig rig;
  KINTSUGI_ASSERT_OK(rig.make_directory("/d"));
  KINTSUGI_ASSERT_OK(rig.make_directory("/d/sub"));
  KINTSUGI_ASSERT_OK(rig.put("/d/old", 3));
  KINTSUGI_ASSERT_OK(rig.put("/d/sub/f", 2));
  KINTSUGI_ASSERT_OK(rig.set_xattr(rig.inode("/d/old"), "before"));
  const Dump before = rig.dump("/d");
  EXPECT_FALSE(rig.exists("/d/.snapshots"));
  KINTSUGI_ASSERT_OK(rig.create("/d", "one"));
  EXPECT_EQ(rig.create("/d", "one").code(), Code::kAlreadyExists);
  EXPECT_EQ(rig.create("/d", "a/b").code(), Code::kInvalidArgument);
  EXPECT_EQ(rig.create("/d/old", "x").code(), Code::kNotDirectory);
  EXPECT_EQ(rig.create("/nowhere", "x").code(), Code::kNotFound);
  EXPECT_EQ(rig.dump("/d/.snapshots/one"), before);

  KINTSUGI_EXPECT_OK(rig.put("/d/old", 1, 1000, true));
  KINTSUGI_EXPECT_OK(rig.set_xattr(rig.inode("/d/old"), "after"));
  KINTSUGI_EXPECT_OK(rig.set_size(rig.inode("/d/sub/f"), 5));
  KINTSUGI_EXPECT_OK(rig.rename("/d/sub/f", "/d/g"));
  KINTSUGI_EXPECT_OK(rig.remove("/d/sub"));
  KINTSUGI_EXPECT_OK(rig.put("/d/new"));
  EXPECT_EQ(rig.dump("/d/.snapshots/one"), before);
  const Dump middle = rig.dump("/d");
  KINTSUGI_ASSERT_OK(rig.create("/d", "two"));
  KINTSUGI_EXPECT_OK(rig.remove("/d/old"));
  KINTSUGI_EXPECT_OK(rig.set_mode(rig.inode("/d"), 0700));
  rig.settle();
  rig.restart();
  EXPECT_EQ(rig.dump("/d/.snapshots/one"), before);
  EXPECT_EQ(rig.dump("/d/.snapshots/two"), middle);
  EXPECT_EQ(rig.names("/d"), (std::vector<std::string>{"g", "new"})) << "they are found and not listed";
  EXPECT_EQ(rig.names("/d/.snapshots"), (std::vector<std::string>{"one", "two"}));
  EXPECT_EQ(rig.snapshots("/d").size(), 2u);
  EXPECT_EQ(rig.snapshots()[0].kept_bytes(), 5u * 300'000);

  // By inode: ids are of their own, the way up ends where it began, and nothing can be changed.
  const uint64_t live = rig.inode("/d"), list = rig.inode("/d/.snapshots"),
                 root = rig.inode("/d/.snapshots/one"), file = rig.inode("/d/.snapshots/one/old");
  EXPECT_EQ(rig.lookup(live, ".snapshots")->inode(), list);
  EXPECT_EQ(rig.lookup(list, "one")->inode(), root);
  EXPECT_EQ(rig.lookup(root, "old")->inode(), file);
  EXPECT_EQ(rig.lookup(rig.lookup(root, "sub")->inode(), "..")->inode(), root);
  EXPECT_EQ(rig.lookup(root, "..")->inode(), list);
  EXPECT_EQ(rig.lookup(list, "..")->inode(), live);
  EXPECT_EQ(rig.lookup(list, "three").error().code(), Code::kNotFound);
  EXPECT_EQ(rig.xattr(file), "before");
  EXPECT_EQ(std::set<uint64_t>({live, list, root, file, rig.inode("/d/.snapshots/two")}).size(), 5u);
  EXPECT_EQ(rig.set_size(file, 1).code(), Code::kReadOnly);
  EXPECT_EQ(rig.set_mode(root, 0777).code(), Code::kReadOnly);
  EXPECT_EQ(rig.set_xattr(file, "x").code(), Code::kReadOnly);
  EXPECT_EQ(rig.link(file, live, "l").code(), Code::kReadOnly);
  EXPECT_EQ(rig.link(rig.inode("/d/g"), root, "l").code(), Code::kReadOnly);
  EXPECT_EQ(rig.copy(rig.inode("/d/g"), file).code(), Code::kReadOnly);
  for (const std::string path : {"/d/.snapshots/one/x", "/d/.snapshots/one/old", "/d/.snapshots/x"}) {
    EXPECT_EQ(rig.put(path, 1, 100, true).code(), Code::kReadOnly) << path;
    EXPECT_EQ(rig.make_directory(path).code(), Code::kReadOnly) << path;
    EXPECT_EQ(rig.remove(path, true).code(), Code::kReadOnly) << path;
    EXPECT_EQ(rig.rename(path, "/d/y").code(), Code::kReadOnly) << path;
    EXPECT_EQ(rig.rename("/d/g", path).code(), Code::kReadOnly) << path;
  }
  // A file comes back by sharing what the snapshot keeps.
  KINTSUGI_EXPECT_OK(rig.put("/d/back", 1, 1));
  KINTSUGI_EXPECT_OK(rig.copy(file, rig.inode("/d/back")));
  EXPECT_EQ(rig.stat("/d/back")->size(), 900'000u);
  rig.expect_references_exact();

  KINTSUGI_EXPECT_OK(rig.destroy("/d", "one"));
  EXPECT_EQ(rig.destroy("/d", "one").code(), Code::kNotFound);
  EXPECT_FALSE(rig.exists("/d/.snapshots/one/old"));
  EXPECT_EQ(rig.lookup(root, "old").error().code(), Code::kStale);
  rig.settle();
  EXPECT_EQ(rig.dump("/d/.snapshots/two"), middle);
  rig.expect_references_exact();
  rig.expect_all_chunks_in_place();
  // Ids that nobody was given.
  for (const uint64_t id :
       {~uint64_t{0}, uint64_t{1} << 63, list + 999, root | 0xffffff, file ^ (uint64_t{5} << 53)})
    EXPECT_EQ(rig.lookup(id, "x").error().code(), Code::kStale) << id;
}

TEST(Snapshots, KeepTheirDirectoryAndWhatIsBelowItThere) {
  SnapshotRig rig;
  for (const char* path : {"/a", "/a/d", "/a/d/sub", "/b"})
    KINTSUGI_ASSERT_OK(rig.make_directory(path));
  KINTSUGI_ASSERT_OK(rig.put("/a/d/f"));
  KINTSUGI_ASSERT_OK(rig.put("/b/g"));
  KINTSUGI_ASSERT_OK(rig.create("/a/d", "s"));
  EXPECT_EQ(rig.rename("/a/d/f", "/b/f").code(), Code::kCrossDevice);
  EXPECT_EQ(rig.rename("/a/d/sub", "/a/sub").code(), Code::kCrossDevice);
  KINTSUGI_EXPECT_OK(rig.rename("/b/g", "/a/d/sub/g"));
  KINTSUGI_EXPECT_OK(rig.rename("/a/d", "/b/e"));
  EXPECT_EQ(rig.snapshots()[0].path(), "/b/e");
  EXPECT_TRUE(rig.exists("/b/e/.snapshots/s/f"));
  EXPECT_FALSE(rig.exists("/b/e/.snapshots/s/sub/g"));
  EXPECT_EQ(rig.remove("/b/e", true).code(), Code::kNotEmpty);
  EXPECT_EQ(rig.remove("/b", true).code(), Code::kNotEmpty);
  EXPECT_EQ(rig.make_directory("/b/e/.snapshots").code(), Code::kReadOnly);
  EXPECT_EQ(rig.rename("/b/e/f", "/b/e/.snapshots").code(), Code::kReadOnly);
  KINTSUGI_EXPECT_OK(rig.make_directory("/a/.snapshots")) << "elsewhere it is a name like others";
  EXPECT_EQ(rig.create("/a", "s").code(), Code::kAlreadyExists);
  KINTSUGI_EXPECT_OK(rig.destroy("/b/e", "s"));
  rig.settle();
  KINTSUGI_EXPECT_OK(rig.rename("/b/e/f", "/a/f"));
  KINTSUGI_EXPECT_OK(rig.remove("/b", true));
}

TEST(Snapshots, HoldFilesThatAreHeldAndGetANameElsewhere) {
  SnapshotRig rig;
  for (const char* path : {"/a", "/b"})
    KINTSUGI_ASSERT_OK(rig.make_directory(path));
  KINTSUGI_ASSERT_OK(rig.put("/a/f", 2));
  KINTSUGI_ASSERT_OK(rig.put("/a/two", 2));
  const uint64_t file = rig.inode("/a/f"), two = rig.inode("/a/two");
  KINTSUGI_ASSERT_OK(rig.link(two, rig.inode("/b"), "two"));
  KINTSUGI_ASSERT_OK(rig.create("/a", "s"));
  const Dump before = rig.dump("/a/.snapshots/s");
  proto::KeepSessionRequest hold;
  hold.set_session(7);
  hold.add_hold(file);
  ASSERT_TRUE(rig.call<proto::KeepSessionResponse>(rpc::Method::kKeepSession, hold));
  KINTSUGI_ASSERT_OK(rig.remove("/a/f"));
  KINTSUGI_ASSERT_OK(rig.link(file, rig.inode("/b"), "f"));
  KINTSUGI_EXPECT_OK(rig.set_size(file, 10));
  KINTSUGI_EXPECT_OK(rig.remove("/a/two"));
  KINTSUGI_EXPECT_OK(rig.rename("/b/two", "/b/renamed"));
  KINTSUGI_EXPECT_OK(rig.set_size(two, 10));
  KINTSUGI_EXPECT_OK(rig.remove("/b", true));
  rig.settle();
  EXPECT_EQ(rig.dump("/a/.snapshots/s"), before);
  rig.expect_references_exact();
}

TEST(Snapshots, AreCoveredByFsckAndByRepair) {
  SnapshotRig rig(1, 9);
  KINTSUGI_ASSERT_OK(rig.make_directory("/d"));
  KINTSUGI_ASSERT_OK(rig.put("/d/f", 30));
  KINTSUGI_ASSERT_OK(rig.put("/other", 2));
  KINTSUGI_ASSERT_OK(rig.create("/d", "s"));
  KINTSUGI_ASSERT_OK(rig.remove("/d/f"));
  rig.settle();
  EXPECT_EQ(rig.fsck().stripes(), 32u);
  EXPECT_EQ(rig.fsck().problems_size(), 0);
  const StripeId stripe{rig.open("/d/.snapshots/s/f")->stripes(0).stripe_id()};
  const ServerId holder{load_stripe(*rig.store, stripe)->chunks(0).server_id()};
  rig.server(holder).chunks.erase({stripe, 0});
  rig.server(holder).lost.push_back({stripe, 0});
  rig.pass(2);
  const bool told = std::any_of(rig.told.lost.begin(), rig.told.lost.end(),
                                [&](const auto& lost) { return lost.first == ChunkId{stripe, 0}; });
  EXPECT_TRUE(told) << "the repair manager hears of it";
  const proto::FsckResponse checked = rig.fsck();
  ASSERT_EQ(checked.problems_size(), 1);
  EXPECT_TRUE(checked.problems(0).path().starts_with("/d/.snapshots/s")) << checked.problems(0).path();
  EXPECT_EQ(checked.problems(0).stripe_id(), stripe.value);
  // Page after page finds the same.
  proto::FsckRequest request;
  request.set_path("/d");
  request.set_with_stripes(true);
  std::set<uint64_t> listed;
  for (bool more = true; more;) {
    const auto page = rig.call<proto::FsckResponse>(rpc::Method::kFsck, request);
    ASSERT_TRUE(page) << page.error();
    for (const auto& one : page->listed())
      listed.insert(one.stripe().stripe_id());
    more = page->more();
    request.set_after(page->next_after());
    request.set_from_offset(page->next_from_offset());
  }
  EXPECT_EQ(listed.size(), 30u);
}

TEST(Snapshots, KeepWhatANewerOneOfADirectoryBesideThemInherited) {
  SnapshotRig rig;
  for (const char* path : {"/d", "/d/a", "/d/b"})
    KINTSUGI_ASSERT_OK(rig.make_directory(path));
  KINTSUGI_ASSERT_OK(rig.put("/d/a/f"));
  KINTSUGI_ASSERT_OK(rig.create("/d/a", "needs"));
  const Dump before = rig.dump("/d/a/.snapshots/needs");
  KINTSUGI_ASSERT_OK(rig.create("/d/b", "beside"));
  KINTSUGI_ASSERT_OK(rig.create("/d", "above"));
  KINTSUGI_ASSERT_OK(rig.remove("/d/a/f"));
  // What was saved for the one above goes to the one beside, which is the next older.
  KINTSUGI_ASSERT_OK(rig.destroy("/d", "above"));
  rig.settle();
  EXPECT_EQ(rig.dump("/d/a/.snapshots/needs"), before);
  KINTSUGI_ASSERT_OK(rig.destroy("/d/b", "beside"));
  rig.settle();
  EXPECT_EQ(rig.dump("/d/a/.snapshots/needs"), before);
  rig.expect_references_exact();
  rig.expect_all_chunks_in_place();
  KINTSUGI_ASSERT_OK(rig.destroy("/d/a", "needs"));
  rig.settle();
  EXPECT_EQ(rig.count(keys::Kind::kSaved), 0u);
}

TEST(Snapshots, ShowTheNamesOfAFileThatARemovedDirectoryStillHeldWhenTheyWereMade) {
  SnapshotRig rig;
  for (const char* path : {"/a", "/b", "/b/gone"})
    KINTSUGI_ASSERT_OK(rig.make_directory(path));
  KINTSUGI_ASSERT_OK(rig.put("/a/f"));
  const uint64_t file = rig.inode("/a/f");
  KINTSUGI_ASSERT_OK(rig.link(file, rig.inode("/b"), "l"));
  KINTSUGI_ASSERT_OK(rig.link(file, rig.inode("/b/gone"), "l"));
  rig.settle();
  KINTSUGI_ASSERT_OK(rig.remove("/b/gone", true));
  ASSERT_EQ(rig.count(keys::Kind::kOrphan), 1u);
  const auto records = rig.inode_records();
  const Dump held = rig.dump("/b");
  KINTSUGI_ASSERT_OK(rig.create("/b", "held"));
  ASSERT_EQ(rig.inode_records(), records) << "the directory was cleared before the snapshot was made";
  EXPECT_EQ(rig.stat("/b/.snapshots/held/l")->links(), 3u);
  rig.settle();
  EXPECT_EQ(rig.count(keys::Kind::kOrphan), 0u);
  EXPECT_EQ(rig.stat("/b/l")->links(), 2u);
  const Dump cleared = rig.dump("/b");
  KINTSUGI_ASSERT_OK(rig.create("/b", "cleared"));
  KINTSUGI_ASSERT_OK(rig.remove("/a/f"));
  rig.settle();
  EXPECT_EQ(rig.dump("/b/.snapshots/held"), held);
  EXPECT_EQ(rig.dump("/b/.snapshots/cleared"), cleared);
  KINTSUGI_ASSERT_OK(rig.destroy("/b", "cleared"));
  rig.settle();
  EXPECT_EQ(rig.dump("/b/.snapshots/held"), held);
  rig.expect_references_exact();
}

TEST(Snapshots, AreLimitedInNumber) {
  SnapshotRig rig;
  KINTSUGI_ASSERT_OK(rig.make_directory("/d"));
  for (size_t i = 0; i < kMaxSnapshots; ++i)
    KINTSUGI_ASSERT_OK(rig.create("/d", fmt::format("{}", i)));
  EXPECT_EQ(rig.create("/d", "more").code(), Code::kLimitExceeded);
  KINTSUGI_EXPECT_OK(rig.destroy("/d", "500"));
  rig.settle();
  KINTSUGI_EXPECT_OK(rig.create("/d", "more"));
  std::set<uint64_t> ids;
  for (const proto::Snapshot& snapshot : rig.snapshots())
    ids.insert(rig.inode("/d/.snapshots/" + snapshot.name()));
  EXPECT_EQ(ids.size(), kMaxSnapshots);
}

}  // namespace
}  // namespace kintsugi::metaserver
