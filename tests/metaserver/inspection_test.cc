// Questions that people ask a metaserver: du, df, fsck, servers, policies.
#include "tests/expect_ok.h"
#include "tests/metaserver/metaserver_rig.h"

namespace kintsugi::metaserver {
namespace {

TEST(DiskUsage, CountsAllBelowAPath) {
  MetaServerRig rig;
  KINTSUGI_ASSERT_OK(rig.make_directory("/d"));
  KINTSUGI_ASSERT_OK(rig.make_directory("/d/e"));
  KINTSUGI_ASSERT_OK(rig.put("/d/e/f", 2, 192 * 1024));
  KINTSUGI_ASSERT_OK(rig.put("/other", 1, 1000));
  proto::DiskUsageRequest request;
  request.set_path("/d");
  const auto usage = rig.call<proto::DiskUsageResponse>(rpc::Method::kDiskUsage, request);
  ASSERT_TRUE(usage) << usage.error();
  EXPECT_EQ(usage->files(), 1u);
  EXPECT_EQ(usage->directories(), 2u);
  EXPECT_EQ(usage->bytes(), 2u * 192 * 1024);
  EXPECT_EQ(usage->stored_bytes(), 2u * 5 * 64 * 1024);
  request.set_path("/nowhere");
  EXPECT_EQ(rig.call<proto::DiskUsageResponse>(rpc::Method::kDiskUsage, request).error().code(),
            Code::kNotFound);
}

TEST(DiskFree, SumsWhatTheServersSay) {
  MetaServerRig rig(1, 6);
  KINTSUGI_ASSERT_OK(rig.put("/f", 3));
  rig.servers[0].alive = false;
  rig.pass(13);
  const auto free = rig.call<proto::DiskFreeResponse>(rpc::Method::kDiskFree, proto::Empty());
  EXPECT_EQ(free->servers(), 6u);
  EXPECT_EQ(free->servers_alive(), 5u);
  EXPECT_EQ(free->free_bytes(), 5ull << 40);
  EXPECT_EQ(free->files(), 1u);
  EXPECT_EQ(free->stripes(), 3u);
}

TEST(Fsck, NamesEveryDegradedStripeInPages) {
  MetaServerRig rig(1, 5, 5);
  for (int d = 0; d < 3; ++d) {
    KINTSUGI_ASSERT_OK(rig.make_directory(fmt::format("/d{}", d)));
    for (int f = 0; f < 100; ++f)
      KINTSUGI_ASSERT_OK(rig.put(fmt::format("/d{}/f{}", d, f)));
  }
  EXPECT_EQ(rig.fsck().problems_size(), 0);
  for (int i = 0; i < 3; ++i)
    rig.servers[static_cast<size_t>(i)].alive = false;
  rig.pass(13);
  proto::FsckRequest request;
  request.set_path("/");
  std::set<std::string> paths;
  uint64_t files = 0, directories = 0, lost = 0, missing = 0;
  int pages = 0;
  while (true) {
    const auto page = rig.call<proto::FsckResponse>(rpc::Method::kFsck, request);
    ASSERT_TRUE(page) << page.error();
    ++pages;
    files += page->files();
    directories += page->directories();
    lost += page->lost_stripes();
    missing += page->missing_chunks();
    for (const auto& problem : page->problems()) {
      EXPECT_TRUE(paths.insert(problem.path()).second);
      EXPECT_TRUE(problem.lost());
      EXPECT_EQ(problem.missing_size(), 3);
    }
    if (!page->more()) break;
    request.set_after(page->next_after());
  }
  EXPECT_GT(pages, 1);
  EXPECT_EQ(files, 300u);
  EXPECT_EQ(directories, 4u);
  EXPECT_EQ(paths.size(), 300u);
  EXPECT_EQ(lost, 300u);
  EXPECT_EQ(missing, 900u);
}

TEST(OpenRead, GivesTheStripesOfARangeAFewAtATime) {
  MetaServerRig rig;
  KINTSUGI_ASSERT_OK(rig.put("/f", 70, 1000));
  auto opened = rig.open("/f");
  EXPECT_EQ(opened->stripes_size(), kMaxStripesOfOpenRead);
  EXPECT_TRUE(opened->more());
  const auto& last = opened->extents(opened->extents_size() - 1);
  opened = rig.open("/f", last.file_offset() + last.length());
  EXPECT_EQ(opened->stripes_size(), 6);
  EXPECT_FALSE(opened->more());
  opened = rig.open("/f", 1500, 1000);
  ASSERT_EQ(opened->extents_size(), 2);
  EXPECT_EQ(opened->extents(0).file_offset(), 1000u);
  EXPECT_EQ(rig.open("/f", 1500, ~0ull)->extents_size(), 64);
  EXPECT_EQ(rig.open("/f", 70'000)->extents_size(), 0);
  EXPECT_EQ(rig.open("/").error().code(), Code::kIsDirectory);
  EXPECT_EQ(rig.open("/g").error().message(), "/g does not exist");
}

TEST(Policies, AreCheckedAndListed) {
  MetaServerRig rig;
  proto::SetPolicyRequest set;
  set.set_path("/");
  set.set_policy("rs-nonsense");
  EXPECT_EQ(rig.call<proto::Empty>(rpc::Method::kSetPolicy, set).error().code(), Code::kInvalidArgument);
  set.set_policy("rs-4-2-128k");
  ASSERT_TRUE(rig.call<proto::Empty>(rpc::Method::kSetPolicy, set));
  const auto listed = rig.call<proto::ListPoliciesResponse>(rpc::Method::kListPolicies, proto::Empty());
  EXPECT_EQ(listed->default_policy(), "rs-4-2-128k");
  EXPECT_NE(std::find(listed->policies().begin(), listed->policies().end(), "rs-4-2-128k"),
            listed->policies().end());
  EXPECT_NE(std::find(listed->policies().begin(), listed->policies().end(), "rs-3-2-64k"),
            listed->policies().end());
}

TEST(Options, AreCheckedBeforeAnythingStarts) {
  const auto check = [](auto change) {
    MetaServerOptions options;
    change(options);
    return options.check().code();
  };
  EXPECT_EQ(check([](auto&) {}), Code::kOk);
  EXPECT_EQ(check([](auto& o) { o.chunk_bytes = 1000; }), Code::kInvalidArgument);
  EXPECT_EQ(check([](auto& o) { o.chunk_bytes = 1ull << 30; }), Code::kInvalidArgument);
  EXPECT_EQ(check([](auto& o) { o.dead_after = o.suspect_after; }), Code::kInvalidArgument);
  EXPECT_EQ(check([](auto& o) { o.heartbeat_interval = 0s; }), Code::kInvalidArgument);
  EXPECT_EQ(check([](auto& o) { o.default_policy = "raid5"; }), Code::kInvalidArgument);
}

}  // namespace
}  // namespace kintsugi::metaserver
