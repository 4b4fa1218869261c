// Metadata that is put back to an older state must not make the newer files' chunks garbage.
#include <random>

#include "tests/expect_ok.h"
#include "tests/metaserver/metaserver_rig.h"

namespace kintsugi::metaserver {
namespace {

MetaServerOptions short_times() {
  MetaServerOptions options;
  options.upload_ttl = 100s;
  options.quarantine_retention = 2000s;
  return options;
}

class HistoryRig : public MetaServerRig {
 public:
  explicit HistoryRig(uint64_t seed = 1) : MetaServerRig(seed, 9, 3, short_times()) {}

  /// Long enough for a metaserver that has just started to tell servers where its metadata stands.
  void settle() { pass(12); }

  /// The metaserver dies, its store becomes what it was at `copy`, and it starts again.
  void roll_back(const simulation::MemoryStoreDisk::Copy& copy) {
    meta_node.crash();
    disk.crash();
    disk.put_back(copy);
    restart();
    heartbeat_all();
  }
  void report_all() {
    for (FakeServer& server : servers)
      server.wants_report = true;
    heartbeat_all();
  }
  /// Long enough for every protection of unknown chunks to end, with reports all the time.
  void wait_out_uploads() {
    for (int i = 0; i < 8; ++i) {
      pass(20);
      report_all();
    }
    pass(10);
  }
  proto::MetadataStatusResponse status() {
    return *call<proto::MetadataStatusResponse>(rpc::Method::kMetadataStatus, proto::Empty{});
  }
  bool in_doubt() { return status().has_doubt(); }
  Status accept() { return status_of(call<proto::Empty>(rpc::Method::kAcceptMetadata, proto::Empty{})); }
  proto::ListQuarantineResponse quarantine() {
    return *call<proto::ListQuarantineResponse>(rpc::Method::kListQuarantine, proto::ListQuarantineRequest{});
  }
  Result<proto::ChangeQuarantineResponse> change(proto::ChangeQuarantineRequest::Change change,
                                                 uint64_t stripe = 0) {
    proto::ChangeQuarantineRequest request;
    request.set_change(change);
    request.set_stripe_id(stripe);
    return call<proto::ChangeQuarantineResponse>(rpc::Method::kChangeQuarantine, request);
  }
};

TEST(History, ChunksOfALaterEpochOutliveOlderMetadataAndAreThereWhenTheRightOneIsPutBack) {
  HistoryRig rig;
  KINTSUGI_ASSERT_OK(rig.put("/old", 2));
  rig.settle();
  const auto older = rig.disk.copy();
  rig.restart();
  rig.settle();
  KINTSUGI_ASSERT_OK(rig.put("/new", 3));
  rig.pass(2);
  const auto newer = rig.disk.copy();
  const size_t chunks = rig.chunks_on_servers();

  rig.roll_back(older);
  EXPECT_TRUE(rig.in_doubt());
  EXPECT_FALSE(rig.exists("/new"));
  EXPECT_TRUE(rig.open("/old")) << "what is known is served";
  rig.wait_out_uploads();
  EXPECT_EQ(rig.chunks_on_servers(), chunks);
  EXPECT_TRUE(rig.in_doubt());

  rig.roll_back(newer);
  rig.wait_out_uploads();
  EXPECT_FALSE(rig.in_doubt());
  EXPECT_TRUE(rig.exists("/new"));
  EXPECT_EQ(rig.fsck().missing_chunks(), 0u);
  rig.expect_all_chunks_in_place();
  EXPECT_EQ(rig.quarantine().chunks_size(), 0);
}

TEST(History, ACopyFromTheMiddleOfAnEpochIsToldByItsPosition) {
  HistoryRig rig;
  KINTSUGI_ASSERT_OK(rig.put("/old"));
  rig.settle();
  const auto older = rig.disk.copy();
  KINTSUGI_ASSERT_OK(rig.put("/new", 3));
  rig.pass(2);
  const size_t chunks = rig.chunks_on_servers();
  rig.roll_back(older);
  EXPECT_TRUE(rig.in_doubt());
  rig.wait_out_uploads();
  EXPECT_EQ(rig.chunks_on_servers(), chunks);
}

TEST(History, ChunksWhoseIdsWereNeverReservedGiveOlderMetadataAwayWhenServersForgot) {
  HistoryRig rig;
  KINTSUGI_ASSERT_OK(rig.put("/old"));
  const auto older = rig.disk.copy();
  rig.restart();
  rig.pass(2);
  KINTSUGI_ASSERT_OK(rig.put("/new", 3));
  rig.pass(2);
  const size_t chunks = rig.chunks_on_servers();
  for (FakeServer& server : rig.servers) {
    server.registered = false;
    server.seen = {};
  }
  rig.roll_back(older);
  EXPECT_TRUE(rig.in_doubt());
  rig.wait_out_uploads();
  EXPECT_EQ(rig.chunks_on_servers(), chunks);
}

TEST(History, NewStripesDoNotTakeTheIdsThatLaterMetadataGaveOut) {
  HistoryRig rig;
  const auto older = rig.disk.copy();
  rig.restart();
  rig.pass(2);
  const uint64_t lost = rig.allocate("/f")->stripe().stripe_id();
  rig.roll_back(older);
  rig.pass(2);
  const uint64_t now = rig.allocate("/f")->stripe().stripe_id();
  EXPECT_GT(std::max(lost, now) - std::min(lost, now), IdAllocator::kRange);
}

TEST(History, CrashesAloneNeverPutMetadataInDoubt) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    HistoryRig rig(seed);
    std::mt19937_64 random(seed);
    for (int round = 0; round < 20; ++round) {
      KINTSUGI_ASSERT_OK(rig.put(fmt::format("/{}", round)));
      if (random() % 2 == 0) rig.heartbeat_all();
      if (round % 3 == 0) KINTSUGI_ASSERT_OK(rig.remove(fmt::format("/{}", round)));
      rig.restart(/*crash=*/random() % 4 != 0, /*survivors=*/random() % 3);
      rig.pass(static_cast<int>(random() % 4));
      rig.report_all();
      ASSERT_FALSE(rig.in_doubt()) << "seed " << seed << ", round " << round << ": "
                                   << rig.status().doubt().evidence();
    }
    EXPECT_EQ(rig.fsck().missing_chunks(), 0u);
  }
}

TEST(History, ADoubtOutlivesRestartsAndEndsWhenItIsAccepted) {
  HistoryRig rig;
  KINTSUGI_ASSERT_OK(rig.put("/old"));
  const auto older = rig.disk.copy();
  rig.restart();
  rig.settle();
  KINTSUGI_ASSERT_OK(rig.put("/new", 3));
  rig.pass(2);
  EXPECT_EQ(rig.accept().code(), Code::kNotFound);
  const size_t all = rig.chunks_on_servers();
  rig.roll_back(older);
  rig.restart();
  EXPECT_TRUE(rig.in_doubt());
  rig.heartbeat_all();
  KINTSUGI_ASSERT_OK(rig.remove("/old"));
  rig.pass(10);
  EXPECT_EQ(rig.chunks_on_servers(), all) << "nothing at all is deleted while it lasts";
  EXPECT_EQ(rig.change(proto::ChangeQuarantineRequest::EMPTY).error().code(), Code::kConflict);

  KINTSUGI_EXPECT_OK(rig.accept());
  EXPECT_FALSE(rig.in_doubt());
  rig.pass(20);
  EXPECT_EQ(rig.chunks_on_servers(), 15u) << "what was removed goes, what is unknown stays";
  EXPECT_EQ(rig.quarantine().chunks_size(), 15);
  // Servers that come back remember the other history; that was decided.
  for (FakeServer& server : rig.servers)
    server.registered = false;
  rig.pass(5);
  rig.report_all();
  EXPECT_FALSE(rig.in_doubt());
}

TEST(History, AStoreFromBeforeThereWereEpochsIsNotInDoubt) {
  HistoryRig rig;
  KINTSUGI_ASSERT_OK(rig.put("/old"));
  (void)rig.write(*rig.allocate("/never"), 300'000);
  auto store = rig.disk.copy();
  std::erase_if(store.durable, [](const auto& entry) {
    return entry.first.front() == static_cast<char>(keys::Kind::kEpoch);
  });
  for (FakeServer& server : rig.servers)
    server.seen = {};
  rig.roll_back(store);
  rig.wait_out_uploads();
  EXPECT_FALSE(rig.in_doubt());
  EXPECT_EQ(rig.quarantine().chunks_size(), 5);
  rig.restart();
  rig.wait_out_uploads();
  EXPECT_FALSE(rig.in_doubt());
  rig.expect_all_chunks_in_place();
}

TEST(Quarantine, OfAStripeThatHasNothingInItCannotBeChanged) {
  HistoryRig rig;
  const auto allocated = rig.allocate("/f");
  (void)rig.write(*allocated, 300'000);
  rig.restart();
  rig.wait_out_uploads();
  ASSERT_EQ(rig.quarantine().chunks_size(), 5);
  const uint64_t stripe = rig.quarantine().chunks(0).stripe_id();
  for (const auto change : {proto::ChangeQuarantineRequest::RENEW, proto::ChangeQuarantineRequest::EMPTY})
    EXPECT_EQ(rig.change(change, stripe + 4711).error().code(), Code::kNotFound);
  EXPECT_EQ(rig.change(proto::ChangeQuarantineRequest::RENEW, stripe)->chunks(), 5u);
  EXPECT_EQ(rig.change(proto::ChangeQuarantineRequest::EMPTY, stripe)->chunks(), 5u);
  EXPECT_EQ(rig.change(proto::ChangeQuarantineRequest::EMPTY)->chunks(), 0u)
      << "without a stripe none is needed";
}

TEST(Quarantine, EndsAfterTheTimeThatMetaserversRanAndNotByTheWallClock) {
  HistoryRig rig;
  const auto allocated = rig.allocate("/f");
  (void)rig.write(*allocated, 300'000);
  rig.restart();
  rig.wait_out_uploads();
  EXPECT_EQ(rig.chunks_on_servers(), 5u);
  EXPECT_EQ(rig.quarantine().chunks_size(), 5);
  EXPECT_FALSE(rig.quarantine().chunks(0).foreign());
  rig.meta_node.set_wall_offset(24h * 365);
  rig.pass(700);
  EXPECT_EQ(rig.chunks_on_servers(), 5u);
  rig.restart();
  rig.pass(300);
  EXPECT_EQ(rig.chunks_on_servers(), 5u);
  // The retention of 2,000 s may take two ticks longer: one was lost in the crash, one until it is looked at.
  rig.pass(2000 + 2 * static_cast<int>(Quarantine::kTick / 1s) - 1000);
  EXPECT_EQ(rig.chunks_on_servers(), 0u);
  EXPECT_EQ(rig.status().quarantined_chunks(), 0u);
}

TEST(Quarantine, IsEmptiedOrKeptByAnOperator) {
  HistoryRig rig;
  const auto first = rig.allocate("/f"), second = rig.allocate("/g");
  (void)rig.write(*first, 300'000);
  (void)rig.write(*second, 300'000);
  rig.restart();
  rig.wait_out_uploads();
  ASSERT_EQ(rig.quarantine().chunks_size(), 10);
  const uint64_t left = rig.quarantine().chunks(0).seconds_left();
  EXPECT_EQ(rig.change(proto::ChangeQuarantineRequest::EMPTY, first->stripe().stripe_id())->chunks(), 5u);
  rig.pass(3);
  EXPECT_EQ(rig.chunks_on_servers(), 5u);
  EXPECT_EQ(rig.change(proto::ChangeQuarantineRequest::RENEW)->chunks(), 5u);
  EXPECT_GE(rig.quarantine().chunks(0).seconds_left(), left);
  EXPECT_EQ(rig.change(proto::ChangeQuarantineRequest::EMPTY)->chunks(), 5u);
  rig.pass(3);
  EXPECT_EQ(rig.chunks_on_servers(), 0u);
  EXPECT_EQ(rig.quarantine().chunks_size(), 0);
}

TEST(Quarantine, IsNotNeededForUploadsThatThisProcessSawEnd) {
  HistoryRig rig;
  rig.wait_out_uploads();
  const auto allocated = rig.allocate("/f");
  (void)rig.write(*allocated, 300'000);
  rig.wait_out_uploads();
  rig.pass(3);
  EXPECT_EQ(rig.chunks_on_servers(), 0u);
  EXPECT_EQ(rig.quarantine().chunks_size(), 0);
}

}  // namespace
}  // namespace kintsugi::metaserver
