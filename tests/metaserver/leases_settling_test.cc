// Several inodes whose leases are in the way of one operation.
#include <gmock/gmock.h>

#include "metaserver/service/leased_below.h"
#include "tests/metaserver/lease_rig.h"

namespace kintsugi::metaserver {
namespace {

TEST(Leases, SeveralInodesAreSettledAtTheSameMoment) {
  LeaseRig rig;
  KINTSUGI_ASSERT_OK(rig.put("/g"));
  const uint64_t other = rig.open("/g")->attributes().inode();
  constexpr uint64_t kThird = 7;
  KINTSUGI_EXPECT_OK(rig.keep(kThird, [](auto& request) { request.set_all(true); }));
  ASSERT_TRUE(*rig.get(kWriter, false, true));
  ASSERT_TRUE(*rig.get_of(other, kThird, false, true));
  proto::CopyExtentsRequest copy;
  copy.set_from(rig.inode);
  copy.set_to(other);
  copy.set_length(1000);
  copy.mutable_change()->set_session(kReader);
  copy.mutable_change()->set_number(1);
  std::optional<Status> ended;
  rig.in_background(rpc::Method::kCopyExtents, copy, ended);
  rig.simulation.run_for(100ms);
  KINTSUGI_EXPECT_OK(rig.keep(kWriter, [&](auto& request) { request.add_give_back(rig.inode); }));
  rig.simulation.run_for(100ms);
  ASSERT_TRUE(*rig.get(kWriter, false, true)) << "it may write again while the copy waits for the other file";
  KINTSUGI_EXPECT_OK(rig.keep(kThird, [&](auto& request) { request.add_give_back(other); }));
  rig.simulation.run_for(100ms);
  EXPECT_FALSE(ended) << "what the first file holds is its writer's to say, again";
  KINTSUGI_EXPECT_OK(rig.keep(kWriter, [&](auto& request) { request.add_give_back(rig.inode); }));
  rig.simulation.run_for(100ms);
  ASSERT_TRUE(ended);
  KINTSUGI_EXPECT_OK(*ended);
}

TEST(Leases, ASnapshotAQuotaAndAPolicyWaitOnlyForWhatLiesBelowTheirDirectory) {
  LeaseRig rig;
  KINTSUGI_ASSERT_OK(rig.make_directory("/d"));
  ASSERT_TRUE(*rig.get(kWriter, true, true));
  const TimePoint begin = rig.simulation.now();
  proto::CreateSnapshotRequest snapshot;
  snapshot.set_path("/d");
  snapshot.set_name("one");
  EXPECT_TRUE(rig.call<proto::Empty>(rpc::Method::kCreateSnapshot, snapshot));
  proto::SetQuotaRequest quota;
  quota.set_path("/d");
  quota.set_max_bytes(1'000'000);
  EXPECT_TRUE(rig.call<proto::Empty>(rpc::Method::kSetQuota, quota));
  proto::SetPolicyRequest policy;
  policy.set_path("/d");
  policy.set_policy("rs-3-2-64k");
  EXPECT_TRUE(rig.call<proto::Empty>(rpc::Method::kSetPolicy, policy));
  EXPECT_LT(rig.simulation.now() - begin, 500ms);
  KINTSUGI_EXPECT_OK(rig.grow(kWriter, 400'000, 1));
}

TEST(Leases, WhoSpeaksAndNeverGivesBackHoldsUpNoSnapshotForMoreThanTenSeconds) {
  LeaseRig rig;
  ASSERT_TRUE(*rig.get(kWriter, true, true));
  proto::CreateSnapshotRequest snapshot;
  snapshot.set_path("/");
  snapshot.set_name("one");
  std::optional<Status> ended;
  const TimePoint begin = rig.simulation.now();
  rig.in_background(rpc::Method::kCreateSnapshot, snapshot, ended);
  rig.beat(kWriter, ended, 20);
  ASSERT_TRUE(ended);
  KINTSUGI_EXPECT_OK(*ended);
  EXPECT_GE(rig.simulation.now() - begin, Leases::kTakeOver);
  EXPECT_LE(rig.simulation.now() - begin, Leases::kTakeOver + 2s);
  EXPECT_EQ(rig.grow(kWriter, 400'000, 1).code(), Code::kLeaseLost) << "it came too late";
}

TEST(Leases, ThoseBelowADirectoryAreFoundAPageAtATime) {
  LeaseRig rig;
  KINTSUGI_ASSERT_OK(rig.make_directory("/d"));
  std::vector<InodeId> below;
  for (int i = 0; i < 3; ++i) {
    KINTSUGI_ASSERT_OK(rig.put(fmt::format("/d/{}", i)));
    below.emplace_back(rig.open(fmt::format("/d/{}", i))->attributes().inode());
  }
  proto::StatRequest stat;
  stat.set_path("/d");
  const InodeId directory{rig.call<proto::StatResponse>(rpc::Method::kStat, stat)->attributes().inode()};
  Sessions sessions(*rig.meta_runtime);
  Leases leases(*rig.meta_runtime, sessions);
  constexpr size_t kMany = 3 * LeasedBelow::kAtOnce;
  for (uint64_t i = 0; i < 7; ++i)
    sessions.hold(kWriter + i, InodeId{1});
  for (size_t i = 0; i < kMany; ++i)
    leases.inherit(kWriter + i % 7, InodeId{1'000'000 + i});  // that are nowhere
  for (size_t i = 0; i < below.size(); ++i)
    leases.inherit(kWriter + i, below[i]);
  const Reader reader(*rig.store);
  LeasedBelow leased(reader, leases, directory);
  size_t looks = 1;
  while (leased.look())
    ++looks;
  EXPECT_GE(looks, 4u);
  std::vector<InodeId> found = leased.found();
  std::ranges::sort(found);
  EXPECT_EQ(found, below);
  EXPECT_TRUE(leased.is_complete());
  leases.inherit(kWriter, InodeId{2'000'000});
  EXPECT_FALSE(leased.is_complete()) << "the page in which it would be may have passed";
}

TEST(Leases, ASnapshotSettlesAlsoWhatIsMovedBelowItsDirectoryMeanwhile) {
  std::optional<Status> ended;  // the end of the rig sets it
  LeaseRig rig;
  KINTSUGI_ASSERT_OK(rig.make_directory("/d"));
  const uint64_t moves = rig.meta->state().names.settling.moves();
  ASSERT_TRUE(*rig.get(kWriter, true, true));
  proto::RenameRequest rename;
  rename.set_from("/f");
  rename.set_to("/d/f");
  ASSERT_TRUE(rig.call<proto::Empty>(rpc::Method::kRename, rename));
  EXPECT_GT(rig.meta->state().names.settling.moves(), moves) << "who walks the leases begins again";
  proto::CreateSnapshotRequest snapshot;
  snapshot.set_path("/d");
  snapshot.set_name("one");
  rig.in_background(rpc::Method::kCreateSnapshot, snapshot, ended);
  rig.simulation.run_for(100ms);
  EXPECT_FALSE(ended);
  EXPECT_EQ(rig.recalls(kWriter), std::vector<uint64_t>{rig.inode});
}

TEST(Leases, ACopyIntoAFileWhoseLeaseWasLostIsRefusedUntilItsClientKnows) {
  LeaseRig rig;
  KINTSUGI_ASSERT_OK(rig.put("/g"));
  proto::CopyExtentsRequest copy;
  copy.set_from(rig.open("/g")->attributes().inode());
  copy.set_to(rig.inode);
  copy.set_length(1000);
  copy.mutable_change()->set_session(kWriter);
  copy.mutable_change()->set_number(1);
  ASSERT_TRUE(*rig.get(kWriter, false, true));
  ASSERT_TRUE(rig.get_of(rig.inode, kReader, false, false, 15s)) << "the writer is silent";
  KINTSUGI_ASSERT_OK(rig.grow(kReader, 400'000, 1));
  const auto late = rig.call<proto::CopyExtentsResponse>(rpc::Method::kCopyExtents, copy);
  ASSERT_FALSE(late) << "a call that was under way all the time comes over what others wrote";
  EXPECT_EQ(late.error().code(), Code::kLeaseLost);
  KINTSUGI_EXPECT_OK(rig.keep(kWriter, [&](auto& request) { request.add_give_back(rig.inode); }));
  copy.mutable_change()->set_number(2);
  EXPECT_TRUE(rig.call<proto::CopyExtentsResponse>(rpc::Method::kCopyExtents, copy));
}

/// Leases of one session, whose losses become durable slowly.
struct SlowLosses final : Leases::Losses {
  static constexpr Duration kNotes = 1s;
  SlowLosses() : node(simulation, "10.0.0.1"), sessions(node.runtime()), tasks(node.runtime()) {
    sessions.hold(kWriter, InodeId{1});
    EXPECT_TRUE(leases.inherit(kWriter, file));
  }
  ~SlowLosses() { simulation.run(tasks.stop()); }
  asio::awaitable<Status> note_loss(uint64_t session) override {
    (void)co_await tasks.sleep_for(kNotes);
    sessions.lost_something(session, true);
    co_return Status{};
  }
  void lost(uint64_t, InodeId) override {}
  asio::awaitable<void> settle(Duration limit) {
    Context context;
    context.deadline = simulation.now() + limit;
    settled = co_await leases.settle(context, file, kReader);
    settled_at = simulation.now();
  }

  simulation::Simulation simulation{1};
  simulation::SimNode node;
  Sessions sessions;
  Leases leases{node.runtime(), sessions, this};
  runtime::TaskGroup tasks;
  std::optional<Status> settled;
  TimePoint settled_at;
  const InodeId file{9};
};

TEST(Leases, OneThatIsGrantedAnewWhileTheLossOfTheFormerIsNotedIsNotLost) {
  SlowLosses rig;
  rig.tasks.spawn(rig.settle(30s));
  rig.simulation.run_for(Leases::kTakeOver + SlowLosses::kNotes / 2);
  ASSERT_FALSE(rig.settled);
  // Just then its client is back, has written everything out, and goes on to write.
  rig.leases.give_back(kWriter, rig.file);
  ASSERT_TRUE(rig.leases.inherit(kWriter, rig.file));
  rig.simulation.run_for(SlowLosses::kNotes);
  EXPECT_TRUE(rig.leases.owns(rig.file, kWriter)) << "nobody has asked for this one yet";
  rig.leases.give_back(kWriter, rig.file);
  rig.simulation.run_for(2 * Leases::kTellAgain);
  ASSERT_TRUE(rig.settled);
  KINTSUGI_EXPECT_OK(*rig.settled);
}

TEST(Leases, NobodyWaitsForOneAfterTheDeadlineOfHisCall) {
  SlowLosses rig;
  const TimePoint begin = rig.simulation.now();
  rig.tasks.spawn(rig.settle(3s));
  ASSERT_TRUE(rig.simulation.run_until([&] { return rig.settled.has_value(); }, 30s));
  EXPECT_EQ(rig.settled->code(), Code::kUnavailable);
  EXPECT_LE(rig.settled_at - begin, 3s) << "he is not there any more";
  EXPECT_TRUE(rig.leases.owns(rig.file, kWriter));
}

}  // namespace
}  // namespace kintsugi::metaserver
