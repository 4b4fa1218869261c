// Snapshots of directories in which one name begins another: each name keeps its own value.
#include "tests/metaserver/mean_names.h"
#include "tests/metaserver/snapshot_rig.h"

namespace kintsugi::metaserver {
namespace {

TEST(SnapshotNames, AnEditorsBackupFileDoesNotHideTheOriginal) {
  SnapshotRig rig;
  KINTSUGI_ASSERT_OK(rig.make_directory("/d"));
  KINTSUGI_ASSERT_OK(rig.put("/d/foo"));
  KINTSUGI_ASSERT_OK(rig.create("/d", "one"));
  const Dump before = rig.dump("/d/.snapshots/one");
  KINTSUGI_ASSERT_OK(rig.put("/d/foo~"));
  EXPECT_EQ(rig.dump("/d/.snapshots/one"), before);
  EXPECT_EQ(rig.names("/d/.snapshots/one"), std::vector<std::string>{"foo"});
}

TEST(SnapshotNames, AFileThatIsRemovedAfterOneWithALongerNameIsKept) {
  SnapshotRig rig;
  KINTSUGI_ASSERT_OK(rig.make_directory("/d"));
  KINTSUGI_ASSERT_OK(rig.put("/d/a"));
  KINTSUGI_ASSERT_OK(rig.put("/d/ab"));
  KINTSUGI_ASSERT_OK(rig.create("/d", "one"));
  const Dump before = rig.dump("/d/.snapshots/one");
  KINTSUGI_ASSERT_OK(rig.remove("/d/ab"));
  EXPECT_EQ(rig.dump("/d/.snapshots/one"), before);
  KINTSUGI_ASSERT_OK(rig.remove("/d/a"));
  rig.settle();
  EXPECT_EQ(rig.dump("/d/.snapshots/one"), before);
  rig.expect_references_exact();
  rig.expect_all_chunks_in_place();
}

TEST(SnapshotNames, AttributesWithNamesThatBeginEachOtherAreKeptApart) {
  SnapshotRig rig;
  KINTSUGI_ASSERT_OK(rig.make_directory("/d"));
  KINTSUGI_ASSERT_OK(rig.put("/d/f"));
  const uint64_t file = rig.inode("/d/f");
  KINTSUGI_ASSERT_OK(rig.set_xattr(file, "short", "user.x"));
  KINTSUGI_ASSERT_OK(rig.set_xattr(file, "long", "user.xy"));
  KINTSUGI_ASSERT_OK(rig.create("/d", "one"));
  const uint64_t kept = rig.inode("/d/.snapshots/one/f");
  KINTSUGI_ASSERT_OK(rig.set_xattr(file, "longer", "user.xy"));
  EXPECT_EQ(rig.xattr(kept, "user.x"), "short");
  KINTSUGI_ASSERT_OK(rig.set_xattr(file, "shorter", "user.x"));
  EXPECT_EQ(rig.xattr(kept, "user.x"), "short");
  EXPECT_EQ(rig.xattr(kept, "user.xy"), "long");
  EXPECT_EQ(rig.xattr(kept, std::string("user.x\0", 7)), "") << "a NUL in a name is not part of a number";
}

TEST(SnapshotNames, AllThatAreEasilyConfusedAreKeptInWhateverOrderTheyGo) {
  std::vector<std::string> names = mean_names('f');
  std::mt19937_64 random(1);
  for (int round = 0; round < 5; ++round) {
    SnapshotRig rig;
    KINTSUGI_ASSERT_OK(rig.make_directory("/d"));
    for (size_t i = 0; i < names.size(); i += 2)
      KINTSUGI_ASSERT_OK(rig.put("/d/" + names[i], 1, 1000 + i));
    KINTSUGI_ASSERT_OK(rig.create("/d", "one"));
    const Dump before = rig.dump("/d/.snapshots/one");
    for (size_t i = 1; i < names.size(); i += 2)
      KINTSUGI_ASSERT_OK(rig.put("/d/" + names[i], 1, 1000 + i));
    EXPECT_EQ(rig.dump("/d/.snapshots/one"), before);
    KINTSUGI_ASSERT_OK(rig.create("/d", "two"));
    const Dump all = rig.dump("/d/.snapshots/two");
    std::shuffle(names.begin(), names.end(), random);
    for (const std::string& name : names) {
      KINTSUGI_ASSERT_OK(rig.remove("/d/" + name));
      EXPECT_EQ(rig.dump("/d/.snapshots/one"), before);
      EXPECT_EQ(rig.dump("/d/.snapshots/two"), all);
    }
    rig.settle();
    KINTSUGI_ASSERT_OK(rig.destroy("/d", "two"));
    rig.settle();
    EXPECT_EQ(rig.dump("/d/.snapshots/one"), before);
    rig.expect_references_exact();
  }
}

}  // namespace
}  // namespace kintsugi::metaserver
