#include "metaserver/namespace/namespace.h"

#include "metaserver/namespace/tree_walk.h"
#include "tests/expect_ok.h"
#include "tests/metaserver/namespace_rig.h"

namespace kintsugi::metaserver {
namespace {

TEST(Path, TakesAbsolutePathsAndNothingElse) {
  EXPECT_TRUE(Path::parse("/")->is_root());
  EXPECT_EQ(Path::parse("/a/b")->names, (std::vector<std::string_view>{"a", "b"}));
  EXPECT_EQ(Path::parse("//a///b/")->names, (std::vector<std::string_view>{"a", "b"}));
  EXPECT_EQ(Path::parse("/...")->names.size(), 1u);
  EXPECT_TRUE(Path::parse("/" + std::string(kMaxNameBytes, 'x')));
  for (const std::string& bad :
       {std::string(), std::string("a"), std::string("a/b"), std::string("/a/../b"), std::string("/."),
        std::string("/a/."), std::string("/a\0b", 4), "/" + std::string(kMaxNameBytes + 1, 'x'),
        "/" + std::string(kMaxPathBytes, '/')}) {
    const auto parsed = Path::parse(bad);
    ASSERT_FALSE(parsed) << bad;
    EXPECT_EQ(parsed.error().code(), Code::kInvalidArgument);
    EXPECT_LT(parsed.error().message().size(), 200u);
  }
}

TEST(Keys, KeepTheOrderOfTheirIds) {
  EXPECT_LT(keys::inode(InodeId{1}), keys::inode(InodeId{256}));
  EXPECT_LT(keys::inode(InodeId{255}), keys::inode(InodeId{1ull << 56}));
  const ChunkId chunk{StripeId{~0ull}, 31};
  EXPECT_EQ(keys::chunk_of(keys::garbage(ServerId{~0ull}, chunk)), chunk);
  const keys::Range last = keys::all(keys::Kind::kServerChunk, ~0ull);
  EXPECT_LT(keys::server_chunk(ServerId{~0ull}, chunk), last.end);
  const keys::Range entries = keys::entries(InodeId{5}, "b");
  EXPECT_GE(keys::entry(InodeId{5}, "b"), keys::all(keys::Kind::kEntry, 5).begin);
  EXPECT_LT(keys::entry(InodeId{5}, "b"), entries.begin);
  EXPECT_GE(keys::entry(InodeId{5}, std::string("b\x01")), entries.begin);
  EXPECT_LT(keys::entry(InodeId{5}, "\xff\xff"), entries.end);
}

TEST(Namespace, MakesDirectoriesOneAtATimeOrWithTheirParents) {
  NamespaceRig rig;
  KINTSUGI_EXPECT_OK(rig.make_directory("/a"));
  EXPECT_EQ(rig.make_directory("/a").code(), Code::kAlreadyExists);
  EXPECT_EQ(rig.make_directory("/").code(), Code::kAlreadyExists);
  EXPECT_EQ(rig.make_directory("/x/y").code(), Code::kNotFound);
  KINTSUGI_EXPECT_OK(rig.make_directory("/a/b/c/d", true));
  KINTSUGI_EXPECT_OK(rig.make_directory("/a/b/c/d", true));
  KINTSUGI_EXPECT_OK(rig.make_directory("/", true));
  KINTSUGI_EXPECT_OK(rig.put("/a/f"));
  EXPECT_EQ(rig.make_directory("/a/f/g", true).code(), Code::kNotDirectory);
  EXPECT_EQ(rig.make_directory("/a/f", true).code(), Code::kAlreadyExists);
  EXPECT_EQ(rig.stat("/a/b/c/d")->type(), proto::Attributes::DIRECTORY);
  EXPECT_EQ(rig.stat("/a")->links(), 3u);
  EXPECT_EQ(rig.stat("/a/f/g").error().code(), Code::kNotDirectory);
  EXPECT_EQ(rig.totals().directories(), 5u);
  EXPECT_EQ(rig.totals().files(), 1u);
}

TEST(Namespace, ListsInPages) {
  NamespaceRig rig;
  for (int i = 0; i < 25; ++i)
    KINTSUGI_ASSERT_OK(rig.put(fmt::format("/f{:02}", i), static_cast<uint64_t>(i)));
  std::vector<std::string> seen;
  std::string after;
  for (int page = 0; page < 10; ++page) {
    const auto listed = rig.names->list(Transaction(*rig.store), "/", after, 7);
    ASSERT_TRUE(listed);
    for (const auto& entry : listed->entries()) {
      EXPECT_EQ(entry.attributes().size(), seen.size());
      seen.push_back(entry.name());
    }
    if (!listed->more()) break;
    after = seen.back();
  }
  EXPECT_EQ(seen.size(), 25u);
  EXPECT_TRUE(std::is_sorted(seen.begin(), seen.end()));
  const auto of_file = rig.names->list(Transaction(*rig.store), "/f03", "", 0);
  EXPECT_EQ(of_file->self().size(), 3u);
  EXPECT_EQ(of_file->entries_size(), 0);
  EXPECT_EQ(rig.names->list(Transaction(*rig.store), "/no", "", 0).error().code(), Code::kNotFound);
}

TEST(Namespace, RenamesLikePosix) {
  NamespaceRig rig;
  KINTSUGI_ASSERT_OK(rig.make_directory("/d/e", true));
  KINTSUGI_ASSERT_OK(rig.make_directory("/empty"));
  KINTSUGI_ASSERT_OK(rig.put("/f", 1));
  KINTSUGI_ASSERT_OK(rig.put("/g", 2));
  EXPECT_EQ(rig.rename("/f", "/g").code(), Code::kAlreadyExists);
  EXPECT_EQ(rig.rename("/f", "/d", true).code(), Code::kIsDirectory);
  EXPECT_EQ(rig.rename("/d", "/f", true).code(), Code::kNotDirectory);
  EXPECT_EQ(rig.rename("/empty", "/d", true).code(), Code::kNotEmpty);
  EXPECT_EQ(rig.rename("/d", "/d/e/x").code(), Code::kInvalidArgument);
  EXPECT_EQ(rig.rename("/d", "/d/x").code(), Code::kInvalidArgument);
  EXPECT_EQ(rig.rename("/", "/x").code(), Code::kInvalidArgument);
  EXPECT_EQ(rig.rename("/no", "/x").code(), Code::kNotFound);
  EXPECT_EQ(rig.rename("/f", "/no/x").code(), Code::kNotFound);
  EXPECT_EQ(rig.rename("/f", "/g/x").code(), Code::kNotDirectory);
  KINTSUGI_EXPECT_OK(rig.rename("/f", "/f"));
  KINTSUGI_EXPECT_OK(rig.rename("/f", "/g", true));
  EXPECT_EQ(rig.stat("/g")->size(), 1u);
  EXPECT_FALSE(rig.stat("/f"));
  KINTSUGI_EXPECT_OK(rig.rename("/d", "/empty", true));
  EXPECT_TRUE(rig.stat("/empty/e"));
  EXPECT_EQ(rig.stat("/")->links(), 3u);
  KINTSUGI_EXPECT_OK(rig.rename("/empty/e", "/e"));
  EXPECT_EQ(rig.stat("/")->links(), 4u);
  EXPECT_EQ(rig.stat("/empty")->links(), 2u);
  EXPECT_EQ(rig.totals().files(), 1u);
}

TEST(Namespace, RemovesATreeAtOnceAndReclaimsItInBoundedSteps) {
  NamespaceRig rig;
  for (int d = 0; d < 5; ++d) {
    const std::string directory = fmt::format("/t/d{}/e", d);
    KINTSUGI_ASSERT_OK(rig.make_directory(directory, true));
    for (int f = 0; f < 150; ++f)
      KINTSUGI_ASSERT_OK(rig.put(fmt::format("{}/f{}", directory, f), 0, false, 1));
  }
  KINTSUGI_ASSERT_OK(rig.put("/t/big", 0, false, 100));
  KINTSUGI_ASSERT_OK(rig.put("/kept", 0, false, 3));
  EXPECT_EQ(rig.remove("/t").code(), Code::kNotEmpty);
  EXPECT_EQ(rig.remove("/", true).code(), Code::kInvalidArgument);
  KINTSUGI_EXPECT_OK(rig.remove("/t", true));
  EXPECT_FALSE(rig.stat("/t"));
  EXPECT_EQ(rig.remove("/t", true).code(), Code::kNotFound);
  // A new tree of the same name has nothing to do with the old one.
  KINTSUGI_ASSERT_OK(rig.put("/t"));
  rig.reopen();
  EXPECT_GT(rig.reclaim_all(1500), 10);
  EXPECT_EQ(rig.freed.size(), 5u * 150 + 100);
  EXPECT_EQ(rig.count(keys::Kind::kStripe), 3u);
  EXPECT_EQ(rig.count(keys::Kind::kServerChunk), 9u);
  EXPECT_EQ(rig.count(keys::Kind::kGarbage), 850u * 3);
  EXPECT_EQ(rig.count(keys::Kind::kInode), 3u);
  EXPECT_EQ(rig.count(keys::Kind::kEntry), 2u);
  EXPECT_EQ(rig.totals().files(), 2u);
  EXPECT_EQ(rig.totals().directories(), 1u);
  EXPECT_EQ(rig.totals().stripes(), 3u);
}

TEST(Namespace, PoliciesAreInherited) {
  NamespaceRig rig;
  KINTSUGI_ASSERT_OK(rig.make_directory("/a/b", true));
  KINTSUGI_ASSERT_OK(rig.put("/a/b/f"));
  const auto set = [&](const std::string& path, const std::string& policy) {
    return rig.apply([&](Transaction& t) { return rig.policies->set(t, path, policy); });
  };
  const auto policy = [&](const std::string& path) { return rig.policies->of(*rig.store, path)->policy(); };
  EXPECT_EQ(policy("/a/b"), "rs-6-3-1024k");
  EXPECT_EQ(rig.policies->of(*rig.store, "/a/b")->inherited_from(), "/");
  KINTSUGI_ASSERT_OK(set("/a", "rs-3-2-64k"));
  EXPECT_EQ(policy("/a/b"), "rs-3-2-64k");
  EXPECT_EQ(rig.policies->of(*rig.store, "/a/b")->inherited_from(), "/a");
  EXPECT_EQ(rig.policies->for_new_file(*rig.store, "/a/b/new")->policy(), "rs-3-2-64k");
  EXPECT_EQ(rig.policies->for_new_file(*rig.store, "/a/b/f")->policy(), "rs-3-2-64k");
  EXPECT_EQ(policy("/a/b/f"), "rs-2-1-64k");
  EXPECT_EQ(set("/a/b/f", "rs-3-2-64k").code(), Code::kNotDirectory);
  KINTSUGI_ASSERT_OK(set("/a", ""));
  EXPECT_EQ(policy("/a/b"), "rs-6-3-1024k");
  KINTSUGI_ASSERT_OK(set("/", "rs-2-1-64k"));
  EXPECT_EQ(policy("/a"), "rs-2-1-64k");
  KINTSUGI_ASSERT_OK(set("/", ""));
  EXPECT_EQ(policy("/a"), "rs-6-3-1024k") << "the configured default";
}

TEST(IdAllocator, NeverGivesAnIdTwiceOverCrashes) {
  NamespaceRig rig;
  std::set<uint64_t> seen;
  for (int life = 0; life < 4; ++life) {
    for (int i = 0; i < 7000; ++i) {
      const auto id = rig.ids->take();
      ASSERT_TRUE(id) << id.error();
      ASSERT_TRUE(seen.insert(*id).second) << "id " << *id << " was given out before";
      if (i % 500 == 0) rig.simulation.run_for(1ms);
    }
    rig.reopen();
  }
}

TEST(TreeWalk, ComesToEveryEntryOnceWhereverItIsInterrupted) {
  NamespaceRig rig;
  for (int i = 0; i < 3; ++i) {
    KINTSUGI_ASSERT_OK(rig.make_directory(fmt::format("/a/d{}/deep/er", i), true));
    for (int f = 0; f < 70; ++f)
      KINTSUGI_ASSERT_OK(rig.put(fmt::format("/a/d{}/deep/f{}", i, f)));
  }
  KINTSUGI_ASSERT_OK(rig.put("/b"));
  const auto walk_all = [&](std::string after, size_t at_most) {
    std::vector<std::string> paths;
    auto tree = TreeWalk::start(*rig.store, "/a", after);
    EXPECT_TRUE(tree);
    while (paths.size() < at_most) {
      const auto item = tree->next(*rig.store);
      if (!item) break;
      paths.push_back(item->path);
    }
    return paths;
  };
  const std::vector<std::string> whole = walk_all("", SIZE_MAX);
  EXPECT_EQ(whole.size(), 1u + 3 * 3 + 3 * 70);
  EXPECT_EQ(whole.front(), "/a");
  for (size_t i = 0; i < whole.size(); i += 7) {
    const std::vector<std::string> rest = walk_all(whole[i], SIZE_MAX);
    ASSERT_EQ(rest, std::vector<std::string>(whole.begin() + static_cast<ptrdiff_t>(i) + 1, whole.end()))
        << whole[i];
  }
  KINTSUGI_ASSERT_OK(rig.remove("/a/d1", true));
  EXPECT_EQ(walk_all("/a/d1/deep/f3", 1), std::vector<std::string>{"/a/d2"});
  EXPECT_FALSE(TreeWalk::start(*rig.store, "/a", "/b"));
}

}  // namespace
}  // namespace kintsugi::metaserver
