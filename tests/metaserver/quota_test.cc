// Quotas of directories: exact limits, nesting, what moves between them, and counts that stay right whatever happens while
// they are taken.
#include "tests/metaserver/directory_rig.h"

namespace kintsugi::metaserver {
namespace {

constexpr uint64_t kMiB = 1 << 20;
constexpr uint64_t kFileBytes = 300'000;  ///< of one put()

class QuotaRig : public DirectoryRig {
 public:
  using DirectoryRig::DirectoryRig;

  Status link_by_path(const std::string& path, const std::string& directory, const std::string& name) {
    return link(inode(path), inode(directory), name);
  }
  Status truncate(const std::string& path, uint64_t size) { return set_size(inode(path), size); }
  /// The task that counts has nothing left to do.
  void settle() { pass(5); }
};

TEST(Quotas, LimitFilesAndBytesExactly) {
  QuotaRig rig;
  KINTSUGI_ASSERT_OK(rig.make_directory("/a"));
  KINTSUGI_ASSERT_OK(rig.set_quota("/a", 3 * kFileBytes, 4));
  KINTSUGI_EXPECT_OK(rig.put("/a/1"));
  KINTSUGI_EXPECT_OK(rig.put("/a/2"));
  KINTSUGI_EXPECT_OK(rig.put("/a/3"));
  EXPECT_EQ(rig.put("/a/4", 1, 1).code(), Code::kQuota) << "a single byte more than there may be";
  EXPECT_FALSE(rig.exists("/a/4"));
  KINTSUGI_EXPECT_OK(rig.put("/a/3", 1, kFileBytes, true)) << "what is replaced makes room for it";
  KINTSUGI_EXPECT_OK(rig.make_directory("/a/d"));
  EXPECT_EQ(rig.make_directory("/a/d/e").code(), Code::kQuota);
  EXPECT_EQ(rig.link_by_path("/a/1", "/a/d", "l").code(), Code::kOk) << "another name is no other file";
  KINTSUGI_EXPECT_OK(rig.truncate("/a/1", 100));
  KINTSUGI_EXPECT_OK(rig.remove("/a/2"));
  KINTSUGI_EXPECT_OK(rig.put("/a/5"));
  EXPECT_EQ(rig.nearest_quota("/a/d").bytes(), 2 * kFileBytes + 100);
  EXPECT_EQ(rig.nearest_quota("/a/1").files(), 4u);
  rig.expect_exact_quotas();
  KINTSUGI_EXPECT_OK(rig.put("/outside", 3));
  KINTSUGI_EXPECT_OK(rig.set_quota("/a", 100, 1)) << "less than what is there";
  EXPECT_EQ(rig.put("/a/6", 1, 1).code(), Code::kQuota);
  EXPECT_EQ(rig.put("/a/5", 1, kFileBytes / 2, true).code(), Code::kOk) << "what gets smaller is fine";
  KINTSUGI_EXPECT_OK(rig.rename("/a/5", "/a/d/5"));
  KINTSUGI_EXPECT_OK(rig.remove("/a/d", true));
  KINTSUGI_EXPECT_OK(rig.unset_quota("/a"));
  KINTSUGI_EXPECT_OK(rig.put("/a/6", 9));
  rig.settle();
  EXPECT_TRUE(rig.quotas().empty());
  EXPECT_EQ(rig.unset_quota("/a").code(), Code::kNotFound);
  EXPECT_EQ(rig.set_quota("/a/6", 1, 1).code(), Code::kNotDirectory);
  EXPECT_EQ(rig.set_quota("/nowhere", 1, 1).code(), Code::kNotFound);
}

TEST(Quotas, OfAnInnerDirectoryCountForTheOuterOne) {
  QuotaRig rig;
  KINTSUGI_ASSERT_OK(rig.make_directory("/a"));
  KINTSUGI_ASSERT_OK(rig.make_directory("/a/b"));
  KINTSUGI_ASSERT_OK(rig.set_quota("/a", 2 * kFileBytes, std::nullopt));
  KINTSUGI_ASSERT_OK(rig.set_quota("/a/b", 2 * kFileBytes, std::nullopt));
  rig.settle();
  KINTSUGI_EXPECT_OK(rig.put("/a/1"));
  KINTSUGI_EXPECT_OK(rig.put("/a/b/2"));
  EXPECT_EQ(rig.put("/a/b/3").code(), Code::kQuota);
  const auto quotas = rig.quotas_at("/a/b/2");
  ASSERT_EQ(quotas.size(), 2u);
  EXPECT_EQ(quotas[0].path(), "/a/b");
  EXPECT_EQ(quotas[0].bytes(), kFileBytes);
  EXPECT_EQ(quotas[1].path(), "/a");
  EXPECT_EQ(quotas[1].bytes(), 2 * kFileBytes);
  // A directory with a quota moves as a whole, and is shown where it is now.
  KINTSUGI_EXPECT_OK(rig.rename("/a/b", "/c"));
  rig.expect_exact_quotas();
  KINTSUGI_EXPECT_OK(rig.put("/c/3"));
  EXPECT_EQ(rig.nearest_quota("/c").path(), "/c");
  EXPECT_EQ(rig.rename("/c", "/a/c").code(), Code::kQuota) << "it holds more than there is room for";
  KINTSUGI_EXPECT_OK(rig.remove("/c", true));
  rig.settle();
  EXPECT_EQ(rig.quotas().size(), 1u);
  rig.expect_exact_quotas();
}

TEST(Quotas, FilesMoveAcrossThemAndTreesDoNot) {
  QuotaRig rig;
  for (const char* path : {"/a", "/b", "/b/tree", "/b/empty"})
    KINTSUGI_ASSERT_OK(rig.make_directory(path));
  KINTSUGI_ASSERT_OK(rig.put("/b/tree/f"));
  KINTSUGI_ASSERT_OK(rig.put("/b/g"));
  KINTSUGI_ASSERT_OK(rig.put("/b/twice"));
  KINTSUGI_ASSERT_OK(rig.link_by_path("/b/twice", "/b", "again"));
  KINTSUGI_ASSERT_OK(rig.set_quota("/a", kFileBytes, 2));
  EXPECT_EQ(rig.rename("/b/tree", "/a/tree").code(), Code::kCrossDevice);
  EXPECT_EQ(rig.rename("/b/twice", "/a/twice").code(), Code::kCrossDevice);
  EXPECT_EQ(rig.link_by_path("/b/g", "/a", "g").code(), Code::kCrossDevice);
  KINTSUGI_EXPECT_OK(rig.rename("/b/empty", "/a/empty"));
  KINTSUGI_EXPECT_OK(rig.rename("/b/g", "/a/g"));
  EXPECT_EQ(rig.nearest_quota("/a").bytes(), kFileBytes);
  EXPECT_EQ(rig.put("/a/h", 1, 1).code(), Code::kQuota);
  KINTSUGI_EXPECT_OK(rig.rename("/a/g", "/b/g"));
  KINTSUGI_EXPECT_OK(rig.put("/a/h"));
  EXPECT_EQ(rig.rename("/b/g", "/a/h", true).code(), Code::kOk) << "it takes the place of what is as large";
  rig.expect_exact_quotas();
}

TEST(Quotas, DoNotCountWhatWasRemovedAndIsStillOpen) {
  QuotaRig rig;
  KINTSUGI_ASSERT_OK(rig.make_directory("/a"));
  KINTSUGI_ASSERT_OK(rig.set_quota("/a", kFileBytes, 1));
  KINTSUGI_ASSERT_OK(rig.put("/a/f"));
  const uint64_t file = rig.inode("/a/f");
  proto::KeepSessionRequest hold;
  hold.set_session(7);
  hold.add_hold(file);
  ASSERT_TRUE(rig.call<proto::KeepSessionResponse>(rpc::Method::kKeepSession, hold));
  KINTSUGI_EXPECT_OK(rig.remove("/a/f"));
  EXPECT_EQ(rig.nearest_quota("/a").files(), 0u);
  KINTSUGI_EXPECT_OK(rig.put("/a/g"));
  proto::GetInodeRequest get;
  get.set_inode(file);
  EXPECT_TRUE(rig.call<proto::InodeResponse>(rpc::Method::kGetInode, get)) << "who has it open still has it";
  hold.clear_hold();
  hold.set_ends(true);
  ASSERT_TRUE(rig.call<proto::KeepSessionResponse>(rpc::Method::kKeepSession, hold));
  rig.settle();
  rig.expect_exact_quotas();
}

TEST(Quotas, CountWhatIsThereAlready) {
  QuotaRig rig;
  KINTSUGI_ASSERT_OK(rig.make_directory("/a"));
  for (int i = 0; i < 5; ++i) {
    KINTSUGI_ASSERT_OK(rig.make_directory(fmt::format("/a/{}", i)));
    for (int j = 0; j < 40; ++j)
      KINTSUGI_ASSERT_OK(rig.make_directory(fmt::format("/a/{}/{}", i, j)));
    KINTSUGI_ASSERT_OK(rig.put(fmt::format("/a/{}/f", i)));
  }
  KINTSUGI_ASSERT_OK(rig.set_quota("/a", 100 * kMiB, 300));
  EXPECT_TRUE(rig.nearest_quota("/a").counting());
  KINTSUGI_ASSERT_OK(rig.set_quota("/a/0", std::nullopt, 41));
  EXPECT_EQ(rig.make_directory("/a/0/more").code(), Code::kQuota);
  KINTSUGI_ASSERT_OK(rig.unset_quota("/a/0"));
  // Something goes to where the count has been already, or not yet.
  KINTSUGI_EXPECT_OK(rig.rename("/a/4/f", "/a/f"));
  for (int i = 39; i >= 30; --i)
    KINTSUGI_EXPECT_OK(rig.rename(fmt::format("/a/1/{}", i), fmt::format("/a/1/!{}", i)));
  KINTSUGI_EXPECT_OK(rig.rename("/a/3", "/a/0/three"));
  rig.restart();
  KINTSUGI_EXPECT_OK(rig.remove("/a/2", true));
  rig.settle();
  rig.expect_exact_quotas();
  EXPECT_EQ(rig.nearest_quota("/a").files(), 4u * 42);
}

}  // namespace
}  // namespace kintsugi::metaserver
