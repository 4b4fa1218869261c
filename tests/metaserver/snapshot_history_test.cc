// Random histories of directories with snapshots: what a snapshot shows stays as it was, whatever the names are.
#include "tests/metaserver/mean_names.h"
#include "tests/metaserver/snapshot_rig.h"
#include "tests/test_seeds.h"

namespace kintsugi::metaserver {
namespace {

TEST(Snapshots, StayAsTheyWereWhateverHappens) {
  size_t made = 0, kept = 0;
  const TestSeeds seeds(12);
  for (uint64_t seed = seeds.first(); seed < seeds.end(); ++seed) {
    SCOPED_TRACE(TestSeeds::replay(seed));
    SnapshotRig rig(seed);
    const std::vector<std::string> files = some_mean_names('f', 4, seed),
                                   directories = some_mean_names('d', 2, seed),
                                   attributes = some_mean_names('x', 2, seed),
                                   names = some_mean_names('s', 4, seed);
    runtime::Random& random = rig.meta_node.runtime().random;
    const auto pick = [&](uint64_t below) { return random.next() % below; };
    const auto any_of = [&](const std::vector<std::string>& names) { return names[pick(names.size())]; };
    const auto directory = [&] {
      std::string path;
      for (uint64_t depth = pick(4); depth > 0; --depth)
        path += "/" + any_of(directories);
      return path;
    };
    std::map<std::pair<uint64_t, std::string>, Dump> shown;  // by directory and name
    const auto path_of_snapshot = [&](const proto::Snapshot& snapshot) {
      return (snapshot.path() == "/" ? "" : snapshot.path()) + "/.snapshots/" + snapshot.name();
    };
    const auto check_all = [&] {
      for (const proto::Snapshot& snapshot : rig.snapshots()) {
        if (snapshot.deleting()) continue;
        const auto known = shown.find({rig.inode(snapshot.path()), snapshot.name()});
        ASSERT_NE(known, shown.end());
        ASSERT_EQ(rig.dump(path_of_snapshot(snapshot)), known->second) << path_of_snapshot(snapshot);
      }
      rig.expect_references_exact();
    };
    for (int i = 0; i < 600 && !testing::Test::HasFailure(); ++i) {
      const std::string path = directory(), other = directory();
      const std::string file = path + "/" + any_of(files), dir = path.empty() ? "/" : path;
      switch (pick(15)) {
        case 0:
        case 1: (void)rig.make_directory(path + "/" + any_of(directories)); break;
        case 2:
        case 3: (void)rig.put(file, static_cast<int>(pick(4) == 0 ? 20 : 1), 1 + pick(3000), true); break;
        case 4: (void)rig.remove(file); break;
        case 5: (void)rig.rename(file, other + "/" + any_of(files), true); break;
        case 6: (void)rig.rename(path + "/" + any_of(directories), other + "/" + any_of(directories)); break;
        case 7:
          if (pick(3) == 0) (void)rig.remove(path + "/" + any_of(directories), true);
          break;
        case 8: (void)rig.set_size(rig.inode(file), pick(2) * pick(4000)); break;
        case 9: (void)rig.copy(rig.inode(file), rig.inode(other + "/" + any_of(files))); break;
        case 10:
          if (pick(3) == 0)
            (void)rig.link(rig.inode(file), rig.inode(other.empty() ? "/" : other), any_of(files));
          break;
        case 11:
          (void)(pick(2)
                     ? rig.set_mode(rig.inode(file), pick(512))
                     : rig.set_xattr(rig.inode(file), fmt::format("v{}", i), "user." + any_of(attributes)));
          break;
        case 12: {
          const std::string name = any_of(names);
          if (rig.inode(dir) == 0) break;
          // What was removed is cleared in the background, also between the many calls of a dump: files lose the names
          // that they had there. Then the dump is not of the moment of the snapshot, which is not compared with it.
          const auto before = rig.inode_records();
          Dump now = rig.dump(dir == "/" ? "" : dir);
          if (!rig.create(dir, name).ok()) break;
          if (rig.inode_records() != before) {
            KINTSUGI_EXPECT_OK(rig.destroy(dir, name));
            break;
          }
          shown[{rig.inode(dir), name}] = std::move(now);
          ++made;
          break;
        }
        case 13: {
          const auto all = rig.snapshots();
          if (all.empty() || pick(2) == 0) break;
          const proto::Snapshot& snapshot = all[pick(all.size())];
          (void)rig.destroy(snapshot.path(), snapshot.name());
          break;
        }
        case 14:
          if (pick(10) == 0) rig.restart();
          break;
      }
      if (pick(40) == 0) check_all();
      if (pick(40) == 0) rig.settle();
    }
    check_all();
    kept += rig.count(keys::Kind::kSaved);
    // Also as another process reads the same store.
    rig.restart();
    rig.settle();
    check_all();
    for (const proto::Snapshot& snapshot : rig.snapshots())
      if (!snapshot.deleting()) KINTSUGI_EXPECT_OK(rig.destroy(snapshot.path(), snapshot.name()));
    rig.settle();
    EXPECT_TRUE(rig.snapshots().empty());
    EXPECT_EQ(rig.count(keys::Kind::kSaved), 0u);
    EXPECT_EQ(rig.count(keys::Kind::kSavedFor), 0u);
    rig.expect_references_exact();
    for (const std::string& name : rig.names("/"))
      KINTSUGI_EXPECT_OK(rig.remove("/" + name, true));
    rig.settle();
    EXPECT_EQ(rig.count(keys::Kind::kStripe), 0u);
    EXPECT_EQ(rig.count(keys::Kind::kExtent), 0u);
    EXPECT_EQ(rig.count(keys::Kind::kInode), 1u);
    EXPECT_EQ(rig.meta->stats().stripes, 0u);
    if (testing::Test::HasFailure()) return;
  }
  if (!seeds.many()) return;
  EXPECT_GT(made, 50u);
  EXPECT_GT(kept, 500u);
}

}  // namespace
}  // namespace kintsugi::metaserver
