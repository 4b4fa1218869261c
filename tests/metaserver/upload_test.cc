// Files being written: nothing is visible before the commit, nothing acknowledged is lost, whatever restarts.
#include <algorithm>
#include <vector>

#include "tests/expect_ok.h"
#include "tests/metaserver/metaserver_rig.h"

namespace kintsugi::metaserver {
namespace {

TEST(Upload, AFileIsVisibleOnceItIsCommittedAndNotBefore) {
  MetaServerRig rig;
  const auto allocated = rig.allocate("/f");
  ASSERT_TRUE(allocated) << allocated.error();
  EXPECT_EQ(allocated->stripe().chunks_size(), 5);
  const proto::SealedStripe sealed = rig.write(*allocated, 200'000);
  KINTSUGI_ASSERT_OK(rig.seal(allocated->upload_id(), sealed));
  EXPECT_FALSE(rig.exists("/f"));
  const auto committed = rig.commit(rig.commit_request("/f", allocated->upload_id(), {sealed}, false));
  ASSERT_TRUE(committed) << committed.error();
  EXPECT_EQ(committed->attributes().size(), 200'000u);
  EXPECT_EQ(committed->attributes().policy(), "rs-3-2-64k");
  const auto opened = rig.open("/f");
  ASSERT_TRUE(opened);
  ASSERT_EQ(opened->stripes_size(), 1);
  for (const auto& chunk : opened->stripes(0).chunks()) {
    EXPECT_TRUE(chunk.available());
    KINTSUGI_EXPECT_OK(rpc::check_capability(test_secret(), chunk.capability(),
                                             {StripeId{opened->stripes(0).stripe_id()}, chunk.index()},
                                             rpc::kOpRead, rig.simulation.clock().wall_now()));
  }
}

TEST(Upload, AFileThatFitsACellGetsCopiesAndIsRecordedWithItsDirectorysPolicy) {
  MetaServerRig rig;
  const auto policies_of = [&](uint64_t bytes, const std::string& wanted) {
    const auto allocated = rig.allocate("/f", 0, wanted, bytes);
    EXPECT_TRUE(allocated) << allocated.error();
    return std::pair(allocated->stripe().policy(), allocated->file_policy());
  };
  using Pair = std::pair<std::string, std::string>;
  EXPECT_EQ(policies_of(0, ""), Pair("rs-3-2-64k", "rs-3-2-64k")) << "the size is not known";
  EXPECT_EQ(policies_of(1, ""), Pair("replication-3-64k", "rs-3-2-64k"));
  EXPECT_EQ(policies_of(65'536, ""), Pair("replication-3-64k", "rs-3-2-64k"));
  EXPECT_EQ(policies_of(65'537, ""), Pair("rs-3-2-64k", "rs-3-2-64k"));
  EXPECT_EQ(policies_of(65'537, "rs-4-1-128k"), Pair("replication-2-128k", "rs-4-1-128k"));
  EXPECT_EQ(policies_of(10, "replication-2-64k"), Pair("replication-2-64k", "replication-2-64k"));
}

// Who knows the id of an upload may commit it as a file of its own, or abort it.
TEST(Upload, WhoHasOneCannotGuessTheIdsOfOthers) {
  MetaServerRig rig;
  std::vector<uint64_t> ids;
  for (int i = 0; i < 8; ++i) {
    const auto allocated = rig.allocate("/f" + std::to_string(i));
    ASSERT_TRUE(allocated) << allocated.error();
    ids.push_back(allocated->upload_id());
  }
  std::ranges::sort(ids);
  for (size_t i = 1; i < ids.size(); ++i)
    EXPECT_GT(ids[i] - ids[i - 1], 1'000'000u);
}

TEST(Upload, SurvivesARestartBetweenAnyTwoSteps) {
  for (int at = 0; at < 6; ++at) {
    SCOPED_TRACE("restart before step " + std::to_string(at));
    MetaServerRig rig;
    int step = 0;
    const auto maybe_restart = [&] {
      if (step++ != at) return;
      rig.restart();
      rig.heartbeat_all();
    };
    maybe_restart();
    const auto first = rig.allocate("/f");
    ASSERT_TRUE(first) << first.error();
    maybe_restart();
    const auto first_sealed = rig.write(*first, 100'000);
    maybe_restart();
    KINTSUGI_ASSERT_OK(rig.seal(first->upload_id(), first_sealed));
    maybe_restart();
    const auto second = rig.allocate("/f", first->upload_id());
    ASSERT_TRUE(second) << second.error();
    EXPECT_NE(first->stripe().stripe_id(), second->stripe().stripe_id());
    const auto second_sealed = rig.write(*second, 100'000);
    maybe_restart();
    auto request = rig.commit_request("/f", first->upload_id(), {first_sealed, second_sealed});
    ASSERT_TRUE(rig.commit(request));
    maybe_restart();
    const auto opened = rig.open("/f");
    ASSERT_TRUE(opened) << opened.error();
    EXPECT_EQ(opened->attributes().size(), 200'000u);
    rig.pass(5);
    rig.expect_all_chunks_in_place();
    EXPECT_EQ(rig.fsck().missing_chunks(), 0u);
  }
}

TEST(Durability, NothingIsToldBeforeItIsDurable) {
  MetaServerRig rig;
  rig.sync_latency = 50ms;
  rig.restart(false);
  bool made = false, seen = false;
  auto make = [](MetaServerRig& rig, bool& done) -> asio::awaitable<void> {
    proto::MakeDirectoryRequest request;
    request.set_path("/d");
    proto::Empty response;
    KINTSUGI_EXPECT_OK(co_await rig.call_async(rpc::Method::kMakeDirectory, request, response));
    done = true;
  };
  auto look = [](MetaServerRig& rig, bool& done) -> asio::awaitable<void> {
    proto::StatRequest request;
    request.set_path("/d");
    proto::StatResponse response;
    KINTSUGI_EXPECT_OK(co_await rig.call_async(rpc::Method::kStat, request, response));
    done = true;
  };
  rig.simulation.run_for(100ms);
  asio::co_spawn(rig.simulation.executor(), make(rig, made), asio::detached);
  rig.simulation.run_for(10ms);
  asio::co_spawn(rig.simulation.executor(), look(rig, seen), asio::detached);
  rig.simulation.run_for(20ms);
  EXPECT_FALSE(made);
  EXPECT_FALSE(seen) << "a crash now would take back what was told";
  rig.simulation.run_for(100ms);
  EXPECT_TRUE(made && seen);
}

TEST(Upload, ACommitThatIsRepeatedAfterARestartSucceedsOnce) {
  MetaServerRig rig;
  const auto allocated = rig.allocate("/f");
  const auto request = rig.commit_request("/f", allocated->upload_id(), {rig.write(*allocated, 1000)});
  const auto first = rig.commit(request);
  ASSERT_TRUE(first);
  const auto second = rig.commit(request);
  ASSERT_TRUE(second) << second.error();
  rig.restart();
  const auto third = rig.commit(request);
  ASSERT_TRUE(third) << third.error();
  EXPECT_EQ(first->attributes().inode(), third->attributes().inode());
}

// Its first answer was lost with the metaserver that gave it, and others have gone on before it comes again.
TEST(Upload, ACommitThatIsRepeatedAfterARestartBringsNoFileBackWhoseChunksAreDeleted) {
  for (const bool replaced : {false, true}) {
    MetaServerRig rig;
    const auto allocated = rig.allocate("/f");
    auto request = rig.commit_request("/f", allocated->upload_id(), {rig.write(*allocated, 300'000)});
    request.set_replace(true);
    ASSERT_TRUE(rig.commit(request));
    rig.restart();
    rig.pass(1);
    if (replaced) {
      KINTSUGI_ASSERT_OK(rig.put("/f", 1, 200'000, true));
    } else {
      KINTSUGI_ASSERT_OK(rig.remove("/f"));
    }
    rig.pass(10);
    EXPECT_EQ(rig.chunks_on_servers(), replaced ? 5u : 0u);
    EXPECT_FALSE(rig.commit(request)) << "nothing of it is there any more";
    EXPECT_EQ(rig.exists("/f"), replaced);
    rig.expect_all_chunks_in_place();
  }
}

TEST(Upload, ReplacingAFileIsOneSwapAndFreesTheOldStripes) {
  MetaServerRig rig;
  KINTSUGI_ASSERT_OK(rig.put("/f", 2));
  const Status again = rig.put("/f", 1);
  EXPECT_EQ(again.code(), Code::kAlreadyExists);
  EXPECT_EQ(again.message(), "/f exists already");
  EXPECT_EQ(rig.open("/f")->stripes_size(), 2);
  KINTSUGI_ASSERT_OK(rig.put("/f", 1, 50'000, true));
  EXPECT_EQ(rig.open("/f")->attributes().size(), 50'000u);
  EXPECT_EQ(rig.told.deleted.size(), 2u);
  rig.pass(20);
  rig.expect_all_chunks_in_place();
}

TEST(Upload, RefusesWhatDoesNotFitItsTicket) {
  MetaServerRig rig;
  const auto allocated = rig.allocate("/f");
  const uint64_t upload = allocated->upload_id();
  const proto::SealedStripe good = rig.write(*allocated, 200'000);
  const auto refused = [&](auto change, Code code) {
    proto::SealedStripe bad = good;
    change(bad);
    EXPECT_EQ(rig.seal(upload, bad).code(), code);
  };
  refused([](auto& s) { (*s.mutable_ticket())[0] ^= 1; }, Code::kPermissionDenied);
  refused([](auto& s) { s.clear_ticket(); }, Code::kPermissionDenied);
  refused([](auto& s) { s.mutable_stripe()->set_stripe_id(999); }, Code::kPermissionDenied);
  refused([](auto& s) { s.mutable_stripe()->set_policy("rs-2-1-64k"); }, Code::kInvalidArgument);
  refused([](auto& s) { s.mutable_stripe()->set_length(0); }, Code::kInvalidArgument);
  refused([](auto& s) { s.mutable_stripe()->set_length(1ull << 40); }, Code::kInvalidArgument);
  refused([](auto& s) { s.mutable_stripe()->mutable_chunks()->RemoveLast(); }, Code::kInvalidArgument);
  refused([](auto& s) { s.mutable_stripe()->mutable_chunks(1)->set_index(2); }, Code::kInvalidArgument);
  refused([](auto& s) { s.mutable_stripe()->mutable_chunks(1)->set_length(5); }, Code::kInvalidArgument);
  refused([](auto& s) { s.mutable_stripe()->mutable_chunks(1)->set_server_id(12345); },
          Code::kInvalidArgument);
  refused(
      [](auto& s) {
        s.mutable_stripe()->mutable_chunks(0)->set_server_id(0);
        s.mutable_stripe()->mutable_chunks(1)->set_server_id(0);
      },
      Code::kInvalidArgument);
  EXPECT_EQ(rig.seal(upload + 1, good).code(), Code::kPermissionDenied);
  KINTSUGI_EXPECT_OK(rig.seal(upload, good));
  KINTSUGI_EXPECT_OK(rig.seal(upload, good)) << "a repetition is fine";
}

TEST(Upload, RefusesExtentsThatDoNotAddUp) {
  MetaServerRig rig;
  KINTSUGI_ASSERT_OK(rig.put("/other"));
  const uint64_t other = rig.open("/other")->stripes(0).stripe_id();
  const auto allocated = rig.allocate("/f");
  const auto good = rig.commit_request("/f", allocated->upload_id(), {rig.write(*allocated, 200'000)});
  const auto refused = [&](auto change, Code code) {
    auto bad = good;
    change(bad);
    const auto result = rig.commit(bad);
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code(), code) << result.error();
  };
  refused([](auto& r) { r.set_size(1); }, Code::kInvalidArgument);
  refused([](auto& r) { r.mutable_extents(0)->set_file_offset(1); }, Code::kInvalidArgument);
  refused([](auto& r) { r.mutable_extents(0)->set_stripe_offset(1); }, Code::kInvalidArgument);
  refused([](auto& r) { r.mutable_extents(0)->set_stripe_offset(~0ull); }, Code::kInvalidArgument);
  refused([](auto& r) { r.mutable_extents(0)->set_length(0); }, Code::kInvalidArgument);
  refused([&](auto& r) { r.mutable_extents(0)->set_stripe_id(other); }, Code::kNotFound);
  refused([](auto& r) { r.set_path("/nowhere/f"); }, Code::kNotFound);
  refused([](auto& r) { r.set_path("/other/f"); }, Code::kNotDirectory);
  refused([](auto& r) { r.set_path("f"); }, Code::kInvalidArgument);
  EXPECT_FALSE(rig.exists("/f"));
  EXPECT_TRUE(rig.commit(good));
}

TEST(Upload, MayMissAllButOneParityAndQueuesThoseAtOnce) {
  MetaServerRig rig;
  const auto allocated = rig.allocate("/f");
  const auto sealed = rig.write(*allocated, 300'000, {1});
  KINTSUGI_ASSERT_OK(rig.seal(allocated->upload_id(), sealed));
  ASSERT_EQ(rig.told.lost.size(), 1u);
  const ChunkId missing{StripeId{sealed.stripe().stripe_id()}, 1};
  EXPECT_EQ(rig.told.lost[0].first, missing);
  ASSERT_TRUE(rig.commit(rig.commit_request("/f", allocated->upload_id(), {sealed}, false)));
  EXPECT_FALSE(rig.open("/f")->stripes(0).chunks(1).available());
  // A restart forgets no missing chunk: they are told again once the servers had time to come back.
  rig.restart();
  rig.pass(5);
  EXPECT_TRUE(rig.told.lost.empty());
  rig.pass(8);
  ASSERT_EQ(rig.told.lost.size(), 1u);
  EXPECT_EQ(rig.told.lost[0].first, missing);
  EXPECT_EQ(rig.chunks_of(ServerId{}), std::vector<ChunkId>{missing});
}

TEST(Upload, ChunksOnAServerThatDiedBeforeTheSealAreTold) {
  for (const bool seal_in_commit : {false, true}) {
    MetaServerRig rig;
    const auto allocated = rig.allocate("/f");
    const auto sealed = rig.write(*allocated, 300'000);
    FakeServer& server = rig.server(ServerId{sealed.stripe().chunks(1).server_id()});
    server.alive = false;
    rig.pass(13);
    ASSERT_EQ(rig.told.dead, std::vector<ServerId>{server.id});
    if (!seal_in_commit) {
      KINTSUGI_ASSERT_OK(rig.seal(allocated->upload_id(), sealed));
    }
    ASSERT_TRUE(rig.commit(rig.commit_request("/f", allocated->upload_id(), {sealed}, seal_in_commit)));
    ASSERT_EQ(rig.told.lost.size(), 1u) << "nobody else would ever repair it";
    EXPECT_EQ(rig.told.lost[0].first, (ChunkId{StripeId{sealed.stripe().stripe_id()}, 1}));
  }
}

TEST(Upload, AnEmptyFileIsCommittedOnceUnderAnIdOfItsOwn) {
  MetaServerRig rig;
  const auto request = rig.commit_request("/f", (1ull << 63) + 5, {});
  const auto first = rig.commit(request);
  ASSERT_TRUE(first) << first.error();
  const auto second = rig.commit(request);
  ASSERT_TRUE(second) << second.error();
  rig.restart();
  const auto third = rig.commit(request);
  ASSERT_TRUE(third) << third.error();
  EXPECT_EQ(first->attributes().inode(), third->attributes().inode());
  EXPECT_EQ(rig.commit(rig.commit_request("/f", (1ull << 63) + 6, {})).error().code(), Code::kAlreadyExists);
  const auto other = rig.commit_request("/g", (1ull << 63) + 7, {});
  ASSERT_TRUE(rig.commit(other));
  KINTSUGI_ASSERT_OK(rig.remove("/g"));
  EXPECT_EQ(rig.commit(other).error().code(), Code::kNotFound) << "a late repetition does not bring it back";
  EXPECT_FALSE(rig.exists("/g"));
}

TEST(Upload, ReplacesAServerBeforeAnythingIsSealed) {
  MetaServerRig rig;
  const auto allocated = rig.allocate("/f");
  proto::ReplaceChunkRequest request;
  request.set_upload_id(allocated->upload_id());
  *request.mutable_stripe() = allocated->stripe();
  request.set_ticket(allocated->ticket());
  request.set_index(2);
  const auto replaced = rig.call<proto::ReplaceChunkResponse>(rpc::Method::kReplaceChunk, request);
  ASSERT_TRUE(replaced) << replaced.error();
  for (const auto& chunk : allocated->stripe().chunks())
    EXPECT_NE(chunk.server_id(), replaced->chunk().server_id());
  EXPECT_EQ(replaced->chunk().index(), 2u);
  auto changed = *allocated;
  *changed.mutable_stripe()->mutable_chunks(2) = replaced->chunk();
  const auto with_old_ticket = rig.write(changed, 200'000);
  EXPECT_EQ(rig.seal(allocated->upload_id(), with_old_ticket).code(), Code::kInvalidArgument);
  changed.set_ticket(replaced->ticket());
  KINTSUGI_EXPECT_OK(rig.seal(allocated->upload_id(), rig.write(changed, 200'000)));
  request.set_index(77);
  EXPECT_FALSE(rig.call<proto::ReplaceChunkResponse>(rpc::Method::kReplaceChunk, request));
}

TEST(Upload, SaysHowManyServersAPolicyNeeds) {
  MetaServerRig rig(1, 4, 2);
  const auto refused = rig.allocate("/f");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Code::kUnavailable);
  EXPECT_EQ(refused.error().message(), "policy rs-3-2-64k needs 5 servers; 4 are alive");
  EXPECT_TRUE(rig.allocate("/f", 0, "replication-3-64k"));
  EXPECT_EQ(rig.allocate("/f", 0, "rs-banana").error().code(), Code::kInvalidArgument);
  EXPECT_EQ(rig.allocate("/no/f").error().code(), Code::kNotFound);
  for (FakeServer& server : rig.servers)
    server.free_bytes = 1000;
  rig.pass(1);
  const auto full = rig.allocate("/f", 0, "replication-3-64k");
  ASSERT_FALSE(full);
  EXPECT_EQ(full.error().code(), Code::kNoSpace);
  EXPECT_EQ(full.error().message(),
            "policy replication-3-64k needs 3 servers; 4 are alive, of which 4 have less than 64 MiB free");
}

TEST(Upload, NamesThePolicyThatPeopleChoseThoughASmallFileGetsCopies) {
  MetaServerRig rig(1, 2, 2);
  const auto refused = rig.allocate("/f", 0, "", /*file_bytes=*/1000);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message(),
            "policy rs-3-2-64k keeps 3 copies of a small file, for which it needs 3 servers; 2 are alive");
}

TEST(Upload, IsRefusedWhileTheMetaserversDiskIsNearlyFullAndDeletionsGoOn) {
  MetaServerRig rig;
  KINTSUGI_ASSERT_OK(rig.put("/f"));
  const auto begun = rig.allocate("/g");
  const auto sealed = rig.write(*begun, 300'000);
  rig.disk.free_bytes = 100 << 20;
  rig.pass(1);
  for (const Status& refused :
       {rig.put("/h"), rig.make_directory("/d"),
        rig.status_of(rig.commit(rig.commit_request("/g", begun->upload_id(), {sealed})))}) {
    EXPECT_EQ(refused, (Status{Code::kNoSpace,
                               "the metaserver's disk has only 100 MiB free: it takes nothing new "
                               "until it has 128 MiB"}));
  }
  KINTSUGI_EXPECT_OK(rig.remove("/f"));
  rig.disk.free_bytes = 1 << 30;
  rig.pass(1);
  KINTSUGI_EXPECT_OK(rig.status_of(rig.commit(rig.commit_request("/g", begun->upload_id(), {sealed}))));
}

TEST(Upload, IsRefusedWhileTheMetaserversDiskIsShortOfInodes) {
  MetaServerRig rig;
  rig.disk.free_inodes = 100;
  rig.pass(1);
  EXPECT_EQ(rig.put("/f"),
            (Status{Code::kNoSpace,
                    "the metaserver's disk has only 100 free inodes: it takes nothing new until "
                    "it has 256 of them"}));
  rig.disk.free_inodes = 1000;
  rig.pass(1);
  KINTSUGI_EXPECT_OK(rig.put("/f"));
}

TEST(Upload, GoesOnWithoutServersThatAreAwayAsLongAsOneMoreMayBeLost) {
  MetaServerRig rig(1, 10, 5);
  for (int i = 0; i < 2; ++i)
    rig.servers[static_cast<size_t>(i)].alive = false;
  rig.pass(15);
  const auto allocated = rig.allocate("/f", 0, "rs-6-3-64k");
  ASSERT_TRUE(allocated) << allocated.error().message();
  const proto::Stripe& stripe = allocated->stripe();
  EXPECT_EQ(stripe.chunks(8).server_id(), 0u) << "a parity chunk is left out";
  for (int i = 0; i < 8; ++i)
    EXPECT_NE(stripe.chunks(i).server_id(), 0u);
  const auto sealed = rig.write(*allocated, 300'000, {8});
  KINTSUGI_EXPECT_OK(rig.status_of(rig.commit(rig.commit_request("/f", allocated->upload_id(), {sealed}))));
  const ChunkId missing{StripeId{stripe.stripe_id()}, 8};
  EXPECT_TRUE(std::ranges::any_of(rig.told.lost, [&](const auto& lost) { return lost.first == missing; }))
      << "it is to be repaired";
  // With three of them away the next loss might be one too many for a stripe that lacked two.
  for (int i = 2; i < 4; ++i)
    rig.servers[static_cast<size_t>(i)].alive = false;
  rig.pass(15);
  const auto refused = rig.allocate("/g", 0, "rs-6-3-64k");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error(), (Status{Code::kUnavailable, "policy rs-6-3-64k needs 9 servers; 6 are alive"}));
}

TEST(Upload, WaitsForServersThatAMetaserverKnowsFromBeforeItsStart) {
  MetaServerRig rig;
  rig.restart();
  std::optional<Status> allocated;
  proto::AllocateStripeRequest request;
  request.set_path("/f");
  proto::AllocateStripeResponse response;
  asio::co_spawn(rig.client_node.runtime().executor,
                 rig.call_async(rpc::Method::kAllocateStripe, request, response),
                 [&](std::exception_ptr, Status status) { allocated = std::move(status); });
  rig.simulation.run_for(2s);
  EXPECT_FALSE(allocated) << "nobody has registered yet";
  rig.heartbeat_all();
  rig.simulation.run_for(100ms);
  ASSERT_TRUE(allocated);
  KINTSUGI_EXPECT_OK(*allocated);
}

TEST(Upload, DoesNotWaitForServersThatDoNotComeBack) {
  MetaServerRig rig;
  rig.restart();
  for (FakeServer& server : rig.servers)
    server.alive = false;
  const TimePoint began = rig.simulation.now();
  EXPECT_EQ(rig.allocate("/f").error().code(), Code::kUnavailable);
  EXPECT_LE(rig.simulation.now() - began, 12s);
}

TEST(Upload, AnAbortedOneIsCollectedAndTakesNothingMore) {
  MetaServerRig rig;
  const auto first = rig.allocate("/f");
  const auto sealed = rig.write(*first, 300'000);
  KINTSUGI_ASSERT_OK(rig.seal(first->upload_id(), sealed));
  const auto second = rig.allocate("/f", first->upload_id());
  const auto unsealed = rig.write(*second, 300'000);
  proto::AbortUploadRequest abort;
  abort.set_upload_id(first->upload_id());
  ASSERT_TRUE(rig.call<proto::Empty>(rpc::Method::kAbortUpload, abort));
  EXPECT_EQ(rig.seal(first->upload_id(), unsealed).code(), Code::kNotFound);
  rig.restart();
  rig.heartbeat_all();
  EXPECT_EQ(rig.seal(first->upload_id(), unsealed).code(), Code::kNotFound);
  EXPECT_FALSE(rig.commit(rig.commit_request("/f", first->upload_id(), {sealed}, false)));
  rig.pass(400);
  EXPECT_EQ(rig.chunks_on_servers(), 0u);
  EXPECT_EQ(rig.meta->stats().stripes, 0u);
}

TEST(Upload, AStripeWhoseChunksMayBeCollectedIsRefusedWhateverTheWallClockSays) {
  MetaServerOptions options;
  options.upload_ttl = 60s;
  MetaServerRig rig(1, 9, 3, options);
  const auto allocated = rig.allocate("/f");
  const auto sealed = rig.write(*allocated, 300'000);
  rig.restart();  // what is known of the upload now is its ticket alone
  rig.pass(100);
  rig.meta_node.set_wall_offset(-1h);
  EXPECT_EQ(rig.seal(allocated->upload_id(), sealed).code(), Code::kNotFound);
}

TEST(Upload, OneWithoutAWordFromItsClientGivesItsSpaceBackWithinAMinute) {
  MetaServerRig rig;
  const auto sealed_one = rig.allocate("/f"), open_one = rig.allocate("/g"), kept = rig.allocate("/h");
  const auto sealed = rig.write(*sealed_one, 300'000);
  KINTSUGI_ASSERT_OK(rig.seal(sealed_one->upload_id(), sealed));
  (void)rig.write(*open_one, 300'000);
  const auto kept_stripe = rig.write(*kept, 300'000);
  for (int i = 0; i < 5; ++i) {
    rig.pass(10);
    proto::KeepUploadRequest keep;
    keep.set_upload_id(kept->upload_id());
    ASSERT_TRUE(rig.call<proto::Empty>(rpc::Method::kKeepUpload, keep));
  }
  EXPECT_EQ(rig.chunks_on_servers(), 5u) << "but for the one whose client was heard";
  const auto late = rig.commit(rig.commit_request("/f", sealed_one->upload_id(), {sealed}));
  ASSERT_FALSE(late);
  EXPECT_FALSE(rig.exists("/f"));
  KINTSUGI_EXPECT_OK(rig.status_of(rig.commit(rig.commit_request("/h", kept->upload_id(), {kept_stripe}))));
  rig.expect_all_chunks_in_place();
}

TEST(Upload, ARestartGivesItsClientTheWholeTimeAgain) {
  MetaServerRig rig;
  const auto allocated = rig.allocate("/f");
  const auto sealed = rig.write(*allocated, 300'000);
  KINTSUGI_ASSERT_OK(rig.seal(allocated->upload_id(), sealed));
  rig.pass(30);
  rig.restart();
  rig.pass(30);
  EXPECT_EQ(rig.chunks_on_servers(), 5u);
  rig.pass(30);
  EXPECT_EQ(rig.chunks_on_servers(), 0u);
}

}  // namespace
}  // namespace kintsugi::metaserver
