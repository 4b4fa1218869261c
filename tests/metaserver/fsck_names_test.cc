// fsck finds snapshots that hold files whose names they have lost, and only those.
#include "metaserver/service/fsck_names.h"

#include "tests/metaserver/snapshot_rig.h"

namespace kintsugi::metaserver {
namespace {

class FsckNamesTest : public testing::Test {
 protected:
  std::vector<proto::FsckSnapshot> damaged(const std::string& path = "/") {
    std::vector<proto::FsckSnapshot> found;
    proto::FsckRequest request;
    request.set_path(path);
    for (bool more = true; more; ++pages) {
      const auto page = rig.call<proto::FsckResponse>(rpc::Method::kFsck, request);
      EXPECT_TRUE(page) << page.error();
      if (!page) break;
      found.insert(found.end(), page->damaged_snapshots().begin(), page->damaged_snapshots().end());
      more = page->more();
      request.set_after(page->next_after());
      request.set_from_offset(page->next_from_offset());
    }
    return found;
  }
  /// As versions left it that took the saved entry of a longer name for that of this one.
  void lose_name(uint64_t directory, const std::string& name, uint64_t snapshot) {
    const keys::SavedKey saved{keys::entry(InodeId{directory}, name), snapshot};
    ASSERT_TRUE(rig.store->get(saved.value())) << name;
    Batch batch;
    batch.remove(saved.value());
    batch.remove(saved.listed());
    KINTSUGI_ASSERT_OK(rig.simulation.run(rig.store->commit(std::move(batch))));
  }

  SnapshotRig rig;
  size_t pages = 0;
};

TEST_F(FsckNamesTest, FindsAFileThatASnapshotKeepsWithoutItsName) {
  for (const char* path : {"/d", "/d/sub", "/e"})
    KINTSUGI_ASSERT_OK(rig.make_directory(path));
  for (const char* path : {"/d/sub/foo", "/d/sub/other", "/d/kept", "/e/foo"})
    KINTSUGI_ASSERT_OK(rig.put(path));
  rig.pass(1);
  KINTSUGI_ASSERT_OK(rig.create("/d", "one"));
  KINTSUGI_ASSERT_OK(rig.create("/e", "two"));
  const uint64_t sub = rig.inode("/d/sub");
  for (const char* path : {"/d/sub/foo", "/d/sub/other", "/e/foo"})
    KINTSUGI_ASSERT_OK(rig.remove(path));
  EXPECT_TRUE(damaged().empty());
  lose_name(sub, "foo", 1);
  const auto found = damaged();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].path(), "/d");
  EXPECT_EQ(found[0].name(), "one");
  EXPECT_EQ(found[0].entries(), 1u);
  EXPECT_NE(found[0].detail().find("/d/sub"), std::string::npos) << found[0].detail();
  EXPECT_TRUE(damaged("/e").empty()) << "it was asked about another directory";
  KINTSUGI_ASSERT_OK(rig.destroy("/d", "one"));
  EXPECT_TRUE(damaged().empty());
}

TEST_F(FsckNamesTest, DoesNotMissNamesThatWereNotThereWhenTheSnapshotWasMade) {
  for (const char* path : {"/d", "/e", "/e/directory"})
    KINTSUGI_ASSERT_OK(rig.make_directory(path));
  KINTSUGI_ASSERT_OK(rig.put("/e/file"));
  rig.pass(1);
  KINTSUGI_ASSERT_OK(rig.create("/d", "one"));
  KINTSUGI_ASSERT_OK(rig.rename("/e/file", "/d/file"));
  KINTSUGI_ASSERT_OK(rig.rename("/e/directory", "/d/directory"));
  KINTSUGI_ASSERT_OK(rig.set_mode(rig.inode("/d/file"), 0600));
  KINTSUGI_ASSERT_OK(rig.remove("/d/file"));
  KINTSUGI_ASSERT_OK(rig.remove("/d/directory"));
  EXPECT_TRUE(damaged().empty());
}

TEST_F(FsckNamesTest, TurnsPagesInsideOfALargeDirectory) {
  constexpr size_t kNames = 2 * kFsckNamesOfAPage + 500, kRemoved = 2500;
  KINTSUGI_ASSERT_OK(rig.make_directory("/d"));
  for (size_t i = 0; i < kNames; ++i)
    KINTSUGI_ASSERT_OK(rig.make_directory(fmt::format("/d/{:05}", i)));
  rig.pass(1);
  KINTSUGI_ASSERT_OK(rig.create("/d", "one"));
  for (size_t i = 0; i < kRemoved; ++i)
    KINTSUGI_ASSERT_OK(rig.remove(fmt::format("/d/{:05}", i * 8)));
  EXPECT_TRUE(damaged().empty());
  EXPECT_GE(pages, 3 * kNames / kFsckNamesOfAPage) << "three batches, each of which reads all names";
  const uint64_t directory = rig.inode("/d");
  lose_name(directory, "00000", 1);
  lose_name(directory, fmt::format("{:05}", 8 * (kRemoved - 1)), 1);
  uint64_t lost = 0;
  for (const proto::FsckSnapshot& snapshot : damaged())
    lost += snapshot.entries();
  EXPECT_EQ(lost, 2u);
}

}  // namespace
}  // namespace kintsugi::metaserver
