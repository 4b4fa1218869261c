// The trash: what is kept and for how long, what comes back, and what is removed at once.
#include "tests/metaserver/directory_rig.h"

namespace kintsugi::metaserver {
namespace {

constexpr int64_t kHour = 3'600'000'000'000;
constexpr uint64_t kFileBytes = 300'000;  ///< of one put()

class TrashRig : public DirectoryRig {
 public:
  using DirectoryRig::DirectoryRig;

  Status unlink(const std::string& directory, const std::string& name) {
    proto::UnlinkRequest request;
    request.set_parent(inode(directory));
    request.set_name(name);
    return status_of(call<proto::Empty>(rpc::Method::kUnlink, request));
  }
  uint64_t stripes() { return meta->stats().stripes; }
};

TEST(Trash, ARestoreWhoseAnswerWasLostIsAnsweredWhenItComesAgain) {
  TrashRig rig;
  KINTSUGI_ASSERT_OK(rig.make_directory("/d"));
  for (const char* path : {"/d/f", "/d/g"})
    KINTSUGI_ASSERT_OK(rig.put(path));
  KINTSUGI_ASSERT_OK(rig.set_trash("/d", kHour));
  for (const char* path : {"/d/f", "/d/g"})
    KINTSUGI_EXPECT_OK(rig.remove(path));
  proto::RestoreTrashRequest restore;
  restore.set_path("/d");
  restore.mutable_change()->set_session(77);
  for (const auto& [entry, to] : std::map<std::string, std::string>{
           {rig.trash("/d").at(0).entry(), "/d/back"}, {rig.trash("/d").at(1).entry(), ""}}) {
    restore.set_entry(entry);
    restore.set_to(to);
    restore.mutable_change()->set_number(restore.change().number() + 1);
    ASSERT_TRUE(rig.call<proto::RestoreTrashResponse>(rpc::Method::kRestoreTrash, restore));
    rig.restart();
    const auto again = rig.call<proto::RestoreTrashResponse>(rpc::Method::kRestoreTrash, restore);
    ASSERT_TRUE(again) << again.error().to_string();
    EXPECT_EQ(again->path(), to) << "where it was is not known any more";
  }
  EXPECT_TRUE(rig.trash("/d").empty());
}

TEST(Trash, KeepsWhatIsRemovedForItsTime) {
  TrashRig rig;
  for (const char* path : {"/d", "/d/sub", "/d/empty"})
    KINTSUGI_ASSERT_OK(rig.make_directory(path));
  for (const char* path : {"/d/sub/f", "/d/sub/g", "/d/h", "/elsewhere"})
    KINTSUGI_ASSERT_OK(rig.put(path));
  EXPECT_EQ(rig.set_trash("/d/h", kHour).code(), Code::kNotDirectory);
  EXPECT_EQ(rig.set_trash("/d", 0).code(), Code::kNotFound);
  KINTSUGI_EXPECT_OK(rig.remove("/d/h"));
  EXPECT_EQ(rig.stripes(), 3u) << "it is off where it was not set";
  KINTSUGI_ASSERT_OK(rig.set_trash("/d", kHour));
  KINTSUGI_EXPECT_OK(rig.remove("/elsewhere"));
  KINTSUGI_EXPECT_OK(rig.remove("/d/empty"));
  const uint64_t file = rig.inode("/d/sub/f");
  KINTSUGI_EXPECT_OK(rig.unlink("/d/sub", "f"));
  KINTSUGI_EXPECT_OK(rig.remove("/d/sub", true));
  EXPECT_FALSE(rig.exists("/d/sub"));
  const auto kept = rig.trash("/d");
  ASSERT_EQ(kept.size(), 2u);
  EXPECT_EQ(kept[0].path(), "/d/.trash/" + kept[1].entry() + "/f") << "where its directory is by now";
  EXPECT_EQ(kept[0].attributes().inode(), file);
  EXPECT_EQ(kept[0].expires_ns() - kept[0].removed_ns(), kHour);
  EXPECT_EQ(kept[1].path(), "/d/sub");
  EXPECT_TRUE(rig.exists("/d/.trash/" + kept[1].entry() + "/g"));

  rig.restart();
  rig.heartbeat_all();
  EXPECT_EQ(*rig.restore_trash("/d", kept[1].entry()), "/d/sub");
  EXPECT_TRUE(rig.exists("/d/sub/g"));
  EXPECT_EQ(*rig.restore_trash("/d/sub", kept[0].entry()), "/d/sub/f");
  EXPECT_EQ(rig.inode("/d/sub/f"), file);
  EXPECT_EQ(rig.restore_trash("/d", kept[0].entry()).error().code(), Code::kNotFound);
  EXPECT_TRUE(rig.trash("/d").empty());

  KINTSUGI_EXPECT_OK(rig.remove("/d/sub/f"));
  KINTSUGI_EXPECT_OK(rig.put("/d/sub/f"));
  const std::string entry = rig.trash("/d").at(0).entry();
  EXPECT_EQ(rig.restore_trash("/d", entry).error().code(), Code::kAlreadyExists);
  EXPECT_EQ(*rig.restore_trash("/d", entry, "/other"), "/other");
  KINTSUGI_EXPECT_OK(rig.remove("/d/sub/f"));
  rig.pass(3500);
  EXPECT_EQ(rig.trash("/d").size(), 1u);
  rig.pass(200);
  EXPECT_TRUE(rig.trash("/d").empty());
  EXPECT_EQ(rig.stripes(), 2u) << "/other and /d/sub/g";
}

TEST(Trash, ThatKeepsThingsForCenturiesTellsNoTimeInThePast) {
  TrashRig rig;
  KINTSUGI_ASSERT_OK(rig.make_directory("/d"));
  KINTSUGI_ASSERT_OK(rig.put("/d/f"));
  constexpr int64_t kLongest = std::numeric_limits<int64_t>::max();
  KINTSUGI_ASSERT_OK(rig.set_trash("/d", kLongest));
  KINTSUGI_EXPECT_OK(rig.remove("/d/f"));
  rig.pass(200);
  const auto kept = rig.trash("/d");
  ASSERT_EQ(kept.size(), 1u);
  EXPECT_EQ(kept[0].expires_ns(), kLongest);
}

TEST(Trash, IsEmptiedOnRequestAndWhenItIsTurnedOff) {
  TrashRig rig;
  KINTSUGI_ASSERT_OK(rig.make_directory("/d"));
  KINTSUGI_ASSERT_OK(rig.set_trash("/d", kHour));
  for (int i = 0; i < 50; ++i) {
    KINTSUGI_ASSERT_OK(rig.put(fmt::format("/d/{}", i)));
    KINTSUGI_ASSERT_OK(rig.remove(fmt::format("/d/{}", i)));
  }
  EXPECT_EQ(rig.trash("/d").size(), 50u);
  KINTSUGI_EXPECT_OK(rig.empty_trash("/d", rig.trash("/d")[3].entry()));
  EXPECT_EQ(rig.stripes(), 49u);
  EXPECT_EQ(rig.empty_trash("/d", "nothing").code(), Code::kNotFound);
  // What was taken out by hand, or removed there, is the trash's no more.
  KINTSUGI_EXPECT_OK(rig.remove("/d/.trash/" + rig.trash("/d")[0].entry()));
  EXPECT_EQ(rig.stripes(), 48u);
  KINTSUGI_EXPECT_OK(rig.empty_trash("/d"));
  EXPECT_TRUE(rig.trash("/d").empty());
  EXPECT_EQ(rig.stripes(), 0u);
  KINTSUGI_ASSERT_OK(rig.put("/d/x"));
  KINTSUGI_ASSERT_OK(rig.remove("/d/x"));
  KINTSUGI_ASSERT_OK(rig.set_trash("/d", 0));
  rig.pass(3);
  EXPECT_EQ(rig.stripes(), 0u);
  EXPECT_FALSE(rig.exists("/d/.trash"));
  KINTSUGI_ASSERT_OK(rig.put("/d/y"));
  KINTSUGI_ASSERT_OK(rig.remove("/d/y"));
  EXPECT_EQ(rig.stripes(), 0u);
}

TEST(Trash, NeverKeepsAnybodyFromRemoving) {
  TrashRig rig;
  for (const char* path : {"/d", "/d/inner", "/d/inner/tree", "/d/snap"})
    KINTSUGI_ASSERT_OK(rig.make_directory(path));
  for (const char* path : {"/d/inner/tree/f", "/d/inner/g", "/d/snap/h"})
    KINTSUGI_ASSERT_OK(rig.put(path));
  KINTSUGI_ASSERT_OK(rig.set_trash("/d", kHour));
  KINTSUGI_ASSERT_OK(rig.set_quota("/d", 3 * kFileBytes, 8));
  KINTSUGI_ASSERT_OK(rig.set_quota("/d/inner", 2 * kFileBytes, 3));
  KINTSUGI_ASSERT_OK(rig.create("/d/snap", "s"));
  rig.pass(3);
  // From one quota to another, with no room left in either; what is in a snapshot stays there.
  KINTSUGI_EXPECT_OK(rig.remove("/d/inner/tree", true));
  KINTSUGI_EXPECT_OK(rig.remove("/d/inner/g"));
  KINTSUGI_EXPECT_OK(rig.remove("/d/snap/h"));
  rig.pass(3);
  EXPECT_EQ(rig.trash("/d").size(), 2u);
  EXPECT_TRUE(rig.exists("/d/.snapshots") || rig.exists("/d/snap/.snapshots/s/h"));
  EXPECT_EQ(rig.put("/d/more", 1, kFileBytes + 1).code(), Code::kQuota) << "what is in the trash counts";
  KINTSUGI_EXPECT_OK(rig.empty_trash("/d"));
  rig.pass(3);
  KINTSUGI_EXPECT_OK(rig.put("/d/more", 3));
  KINTSUGI_EXPECT_OK(rig.remove("/d/.trash", true));
  rig.pass(3);
  EXPECT_TRUE(rig.exists("/d/.trash")) << "it comes back";
  EXPECT_EQ(rig.remove("/d", true).code(), Code::kNotEmpty) << "it holds snapshots";
}

}  // namespace
}  // namespace kintsugi::metaserver
