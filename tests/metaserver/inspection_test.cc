// Questions that people ask a metaserver: du, df, fsck, servers, policies.
#include "metaserver/service/fsck_page.h"
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
  EXPECT_EQ(free->policy(), "rs-3-2-64k");
  EXPECT_EQ(free->storable_bytes(), 3ull << 40);
  EXPECT_EQ(free->files(), 1u);
  EXPECT_EQ(free->stripes(), 3u);
}

TEST(Diagnose, SaysThatThereIsNoRoomOnTheServersOrOnTheMetaserversDisk) {
  MetaServerRig rig(1, 6);
  const auto full = [&] {
    const auto answer = rig.call<proto::DiagnoseResponse>(rpc::Method::kDiagnose, proto::DiagnoseRequest());
    EXPECT_TRUE(answer) << answer.error();
    std::map<std::string, proto::Room> rooms;
    for (const proto::Verdict& verdict : answer->verdicts())
      if (verdict.kind() == proto::Verdict::FULL) rooms[verdict.server()] = verdict.room();
    return rooms;
  };
  EXPECT_TRUE(full().empty());
  rig.servers[0].free_bytes = rig.servers[1].free_bytes = 0;
  rig.pass(2);
  EXPECT_EQ(full().size(), 1u) << "a stripe needs five servers";
  for (FakeServer& server : rig.servers)
    server.free_bytes = 0;
  rig.disk.free_bytes = 100 << 20;
  rig.pass(2);
  const auto rooms = full();
  ASSERT_EQ(rooms.size(), 2u);
  EXPECT_EQ(rooms.at("cluster").free_bytes(), 0u);
  EXPECT_EQ(rooms.at("cluster").servers(), 6u);
  EXPECT_EQ(rooms.at("cluster").full_servers(), 6u);
  EXPECT_EQ(rooms.at("metaserver").free_bytes(), 100u << 20);
  EXPECT_EQ(rooms.at("metaserver").needed_bytes(), 128u << 20);
  rig.disk.free_bytes = 1 << 30;
  rig.servers[5].alive = rig.servers[4].alive = false;
  rig.pass(13);
  EXPECT_TRUE(full().empty()) << "it is servers that are missing, not room";
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

TEST(Fsck, CountsWhatHangsOnServersThatDoNotAnswer) {
  MetaServerRig rig(1, 5, 5);
  KINTSUGI_ASSERT_OK(rig.put("/f", 4));
  EXPECT_EQ(rig.fsck().hanging_chunks(), 0u);
  EXPECT_EQ(rig.fsck().stored_chunks(), 20u);
  const FakeServer& away = rig.servers[0];
  rig.servers[0].alive = false;
  rig.pass(5);
  const proto::FsckResponse one = rig.fsck();
  EXPECT_EQ(one.hanging_chunks(), 4u);
  ASSERT_EQ(one.hanging_size(), 1);
  EXPECT_EQ(one.hanging(0).server().server_id(), away.id.value);
  EXPECT_EQ(one.hanging(0).address(), fmt::format("10.0.2.{}:9000", away.id));
  EXPECT_EQ(one.hanging(0).chunks(), 4u);
  EXPECT_EQ(one.hanging(0).liveness(), proto::ServerState::SUSPECT);
  EXPECT_GT(one.hanging(0).seconds_since_heartbeat(), 4);
  EXPECT_EQ(one.missing_chunks(), 0u) << "nothing is known to be lost";
  EXPECT_EQ(one.problems_size(), 0);
  EXPECT_EQ(one.waiting_stripes(), 0u) << "the others suffice to read";
  rig.servers[1].alive = rig.servers[2].alive = false;
  rig.pass(3);
  EXPECT_EQ(rig.fsck().hanging_chunks(), 12u) << "those that are silent will be suspect soon";
  EXPECT_EQ(rig.fsck().waiting_stripes(), 4u);
  rig.pass(12);
  EXPECT_EQ(rig.fsck().hanging_chunks(), 0u);
  EXPECT_EQ(rig.fsck().missing_chunks(), 12u);
  for (FakeServer& server : rig.servers)
    server.alive = true;
  rig.pass(2);
  EXPECT_EQ(rig.fsck().hanging_chunks(), 0u);
  EXPECT_EQ(rig.fsck().missing_chunks(), 0u);
}

/// Goes through all pages with their stripes; `between` runs after each.
proto::FsckResponse list_all(MetaServerRig& rig,
                             const std::function<void(const proto::FsckResponse&)>& between) {
  proto::FsckRequest request;
  request.set_path("/");
  request.set_with_stripes(true);
  proto::FsckResponse all;
  while (true) {
    const auto page = rig.call<proto::FsckResponse>(rpc::Method::kFsck, request);
    if (!page) {
      ADD_FAILURE() << page.error();
      return all;
    }
    all.set_files(all.files() + page->files());
    all.set_stripes(all.stripes() + page->stripes());
    all.set_stored_bytes(all.stored_bytes() + page->stored_bytes());
    all.mutable_listed()->MergeFrom(page->listed());
    between(*page);
    if (!page->more()) return all;
    request.set_after(page->next_after());
    request.set_from_offset(page->next_from_offset());
  }
}

TEST(Fsck, ListsEveryStripeOnceAndEndsPagesInsideOfLargeFiles) {
  MetaServerRig rig(1, 5, 5);
  constexpr int kStripes = 900;
  KINTSUGI_ASSERT_OK(rig.put("/a", 2, 5 * 64 * 1024));
  KINTSUGI_ASSERT_OK(rig.put("/b", kStripes, 3 * 64 * 1024));
  KINTSUGI_ASSERT_OK(rig.put("/c", 3, 1000));
  int pages = 0, inside = 0;
  const proto::FsckResponse all = list_all(rig, [&](const proto::FsckResponse& page) {
    ++pages;
    inside += page.next_from_offset() > 0;
    EXPECT_LT(page.ByteSizeLong(), 2 * kFsckListedBytesOfAPage);
  });
  EXPECT_GT(inside, 0);
  EXPECT_GE(pages, inside + 1);
  EXPECT_EQ(all.files(), 3u);
  EXPECT_EQ(all.stripes(), 905u);
  std::set<uint64_t> seen;
  uint64_t bytes = 0;
  for (const proto::FsckStripe& listed : all.listed()) {
    EXPECT_TRUE(seen.insert(listed.stripe().stripe_id()).second) << listed.path();
    ASSERT_EQ(listed.stripe().chunks_size(), 5) << "parity is listed, too";
    for (const proto::ChunkPlacement& chunk : listed.stripe().chunks()) {
      bytes += chunk.length();
      EXPECT_TRUE(chunk.available());
      const ChunkId id{StripeId{listed.stripe().stripe_id()}, chunk.index()};
      if (chunk.length() > 0) {
        KINTSUGI_EXPECT_OK(rpc::check_capability(test_secret(), chunk.capability(), id, rpc::kOpRead,
                                                 rig.simulation.clock().wall_now()));
      }
    }
  }
  EXPECT_EQ(seen.size(), 905u);
  EXPECT_EQ(bytes, all.stored_bytes());
}

TEST(Fsck, EndsPagesInsideOfAFileOfMillionsOfExtentsThatNameOneStripe) {
  MetaServerRig rig(1, 5, 5);
  KINTSUGI_ASSERT_OK(rig.put("/b", 1, 1000));
  KINTSUGI_ASSERT_OK(rig.put("/c", 1, 1000));
  const auto opened = rig.open("/b");
  ASSERT_TRUE(opened);
  const InodeId content{opened->attributes().inode()};
  constexpr uint64_t kExtents = 2'000'000;
  Batch batch;
  proto::StoredExtent extent;
  extent.set_length(1);
  extent.set_stripe_id(opened->stripes(0).stripe_id());
  for (uint64_t i = 1; i <= kExtents; ++i)
    batch.put(keys::extent(content, 2000 + 2 * i), extent.SerializeAsString());
  KINTSUGI_ASSERT_OK(rig.simulation.run(rig.store->commit(std::move(batch))));
  uint64_t pages = 0, files = 0;
  proto::FsckRequest request;
  request.set_path("/");
  for (bool more = true; more; ++pages) {
    const auto page = rig.call<proto::FsckResponse>(rpc::Method::kFsck, request);
    ASSERT_TRUE(page) << page.error();
    files += page->files();
    EXPECT_EQ(page->problems_size(), 0);
    more = page->more();
    request.set_after(page->next_after());
    request.set_from_offset(page->next_from_offset());
  }
  EXPECT_EQ(files, 2u);
  EXPECT_GE(pages, kExtents / kFsckExtentsOfAPage) << "no page looks at more";
}

TEST(Fsck, GoesOnWhenTheFileInsideOfWhichAPageEndedIsRemoved) {
  MetaServerRig rig(1, 5, 5);
  KINTSUGI_ASSERT_OK(rig.put("/b", 900, 1000));
  KINTSUGI_ASSERT_OK(rig.put("/c", 1, 1000));
  bool removed = false;
  const proto::FsckResponse all = list_all(rig, [&](const proto::FsckResponse& page) {
    if (page.next_from_offset() == 0 || removed) return;
    removed = true;
    KINTSUGI_EXPECT_OK(rig.remove("/b"));
  });
  EXPECT_TRUE(removed);
  ASSERT_GT(all.listed_size(), 0);
  EXPECT_EQ(all.listed(all.listed_size() - 1).path(), "/c");
  EXPECT_EQ(all.files(), 2u);
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
