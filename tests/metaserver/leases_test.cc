// Write leases: who has one, who is asked to give one back, and what happens to one whose owner is silent.
#include "metaserver/sessions/leases.h"

#include <gmock/gmock.h>

#include "monitoring/sight/module.h"
#include "monitoring/sight/open_tasks.h"
#include "monitoring/sight/recorder.h"
#include "tests/metaserver/lease_rig.h"
#include "tests/monitoring/hand_clock.h"

namespace kintsugi::metaserver {
namespace {

TEST(Leases, OneWriterHasItUntilSomebodyElseWantsToSeeTheFile) {
  LeaseRig rig;
  EXPECT_TRUE(*rig.get(kWriter, true, true));
  EXPECT_TRUE(*rig.get(kWriter, true, true)) << "it still has it";
  KINTSUGI_EXPECT_OK(rig.grow(kWriter, 400'000, 1));
  EXPECT_EQ(rig.get(kReader).error().code(), Code::kDeadlineExceeded) << "nothing was given back meanwhile";
  EXPECT_EQ(rig.recalls(kWriter), std::vector<uint64_t>{rig.inode});
  EXPECT_FALSE(*rig.get(kWriter, true, true)) << "it is wanted back";
  KINTSUGI_EXPECT_OK(rig.keep(kWriter, [&](auto& request) { request.add_give_back(rig.inode); }));
  EXPECT_FALSE(*rig.get(kReader, true, true)) << "the writer has the file open";
  const auto seen = rig.open("/f");
  ASSERT_TRUE(seen);
  EXPECT_EQ(seen->attributes().size(), 400'000u);
}

TEST(Leases, ListingsAndReadsByPathAskForIt) {
  LeaseRig rig;
  for (int way = 0; way < 3; ++way) {
    EXPECT_TRUE(*rig.get(kWriter, false, true));
    const auto try_it = [&]() -> Code {
      if (way == 0) {
        proto::OpenReadRequest open;
        open.set_path("/f");
        const auto read = rig.call<proto::OpenReadResponse>(rpc::Method::kOpenRead, open);
        return read ? Code::kOk : read.error().code();
      }
      if (way == 1) {
        proto::StatRequest request;
        request.set_path("/f");
        const auto found = rig.call<proto::StatResponse>(rpc::Method::kStat, request);
        return found ? Code::kOk : found.error().code();
      }
      proto::ListRequest request;
      request.set_path("/");
      const auto listed = rig.call<proto::ListResponse>(rpc::Method::kList, request);
      return listed ? Code::kOk : listed.error().code();
    };
    EXPECT_EQ(try_it(), Code::kDeadlineExceeded) << way;
    EXPECT_EQ(rig.recalls(kWriter), std::vector<uint64_t>{rig.inode}) << way;
    KINTSUGI_EXPECT_OK(rig.keep(kWriter, [&](auto& request) { request.add_give_back(rig.inode); }));
    EXPECT_EQ(try_it(), Code::kOk) << way;
  }
}

TEST(Leases, AWriterThatIsSilentLosesItAndIsRefusedLater) {
  LeaseRig rig;
  EXPECT_TRUE(*rig.get(kWriter, true, true));
  EXPECT_FALSE(rig.get(kReader)) << "the writer has some time to answer";
  const Result<bool> second = rig.get(kReader), third = rig.get(kReader);
  EXPECT_TRUE(second || third) << third.error();
  EXPECT_EQ(rig.grow(kWriter, 400'000, 1).code(), Code::kLeaseLost) << "others have seen the file without it";
  EXPECT_FALSE(*rig.get(kWriter, true, true)) << "before it has said that it gave up what it kept back";
  KINTSUGI_EXPECT_OK(rig.keep(kWriter, [&](auto& request) {
    request.set_all(true);
    request.add_lease(rig.inode);
  }));
  EXPECT_EQ(rig.grow(kWriter, 400'000, 2).code(), Code::kLeaseLost) << "telling does not bring it back";
  KINTSUGI_EXPECT_OK(rig.keep(kWriter, [&](auto& request) { request.add_give_back(rig.inode); }));
  KINTSUGI_EXPECT_OK(rig.grow(kWriter, 400'000, 3));
}

TEST(Leases, WhoHasLostSoManyThatNoMoreLossesAreRememberedGetsNoMore) {
  LeaseRig rig;
  for (uint64_t page = 0; page < 10; ++page) {
    const auto tell = [&](proto::KeepSessionRequest& request) {
      for (uint64_t i = 0; i < Leases::kMaxOfSession / 10; ++i)
        request.add_lease(1'000'000 + page * Leases::kMaxOfSession + i);
    };
    KINTSUGI_ASSERT_OK(rig.keep(kWriter, tell));
  }
  EXPECT_FALSE(rig.meta->state().clients.leases.grant(kWriter, InodeId{rig.inode}))
      << "should it lose this one too, what it writes later would not be refused";
}

TEST(Leases, ASessionThatWasEndedIsToldThatItLostThem) {
  LeaseRig rig;
  EXPECT_TRUE(*rig.get(kWriter, true, true));
  rig.pass(70);
  proto::KeepSessionRequest request;
  request.set_session(kWriter);
  request.set_all(true);
  request.add_lease(rig.inode);
  const auto told = rig.call<proto::KeepSessionResponse>(rpc::Method::kKeepSession, request);
  ASSERT_TRUE(told) << told.error();
  ASSERT_EQ(told->lost_size(), 1);
  EXPECT_EQ(told->lost(0), rig.inode);
  EXPECT_EQ(rig.grow(kWriter, 400'000, 1).code(), Code::kLeaseLost);
}

TEST(Leases, ASessionThatWasEndedAndComesBackIsNotBelievedAfterARestartBeforeItHasTold) {
  LeaseRig rig;
  ASSERT_TRUE(*rig.get(kWriter, true, true));
  for (int second = 0; rig.meta->state().clients.sessions.known(kWriter) && second < 70; ++second) {
    KINTSUGI_EXPECT_OK(rig.keep(kReader, [](auto&) {}));
    rig.simulation.run_for(1s);
  }
  ASSERT_FALSE(rig.meta->state().clients.sessions.known(kWriter)) << "it was silent";
  ASSERT_TRUE(*rig.get(kReader, false, true));
  KINTSUGI_EXPECT_OK(rig.grow(kReader, 400'000, 1));
  KINTSUGI_EXPECT_OK(rig.keep(kReader, [&](auto& request) { request.add_give_back(rig.inode); }));
  KINTSUGI_EXPECT_OK(rig.keep(kWriter, [](auto&) {}));  // it does not know that it was given up
  rig.restart();
  KINTSUGI_EXPECT_OK(rig.keep(kWriter, [&](auto& request) {
    request.set_all(true);
    request.add_lease(rig.inode);
  }));
  EXPECT_FALSE(rig.meta->state().clients.leases.owns(InodeId{rig.inode}, kWriter))
      << "another has written since";
  // Once it knows, it is believed again.
  KINTSUGI_EXPECT_OK(rig.keep(kWriter, [&](auto& request) { request.add_give_back(rig.inode); }));
  EXPECT_FALSE(rig.meta->state().clients.sessions.has_lost(kWriter));
}

TEST(Leases, ASessionThatWasEndedAndComesBackWithACallIsNotBelievedAfterARestartBeforeItHasTold) {
  LeaseRig rig;
  ASSERT_TRUE(*rig.get(kWriter, true, true));
  for (int second = 0; rig.meta->state().clients.sessions.known(kWriter) && second < 70; ++second) {
    KINTSUGI_EXPECT_OK(rig.keep(kReader, [](auto&) {}));
    rig.simulation.run_for(1s);
  }
  ASSERT_TRUE(*rig.get(kReader, false, true));
  KINTSUGI_EXPECT_OK(rig.keep(kReader, [&](auto& request) { request.add_give_back(rig.inode); }));
  ASSERT_TRUE(rig.get(kWriter, true));
  rig.simulation.run_for(3s);
  KINTSUGI_EXPECT_OK(rig.keep(kWriter, [&](auto& request) {
    request.set_all(true);
    request.set_number(1);
    request.set_generation(1);
    request.set_more(true);  // the page with its leases does not arrive
  }));
  rig.restart();
  KINTSUGI_EXPECT_OK(rig.keep(kWriter, [&](auto& request) {
    request.set_all(true);
    request.add_lease(rig.inode);
  }));
  EXPECT_FALSE(rig.meta->state().clients.leases.owns(InodeId{rig.inode}, kWriter)) << "others had it since";
}

TEST(Leases, WhatASilentSessionWritesBeforeItHasToldIsNotTaken) {
  for (const bool restarts : {false, true}) {
    LeaseRig rig;
    ASSERT_TRUE(*rig.get(kWriter, true, true));
    for (int second = 0; second < (restarts ? 20 : 70); ++second) {
      KINTSUGI_EXPECT_OK(rig.keep(kReader, [](auto&) {}));
      if (second == 0) EXPECT_FALSE(rig.get(kReader, false, true));
      rig.simulation.run_for(1s);
    }
    ASSERT_TRUE(rig.get(kReader)) << "the writer is silent";
    KINTSUGI_ASSERT_OK(rig.grow(kReader, 1000, 1));
    if (restarts) {
      rig.restart();
      rig.heartbeat_all();
      KINTSUGI_EXPECT_OK(rig.keep(kReader, [](auto& request) { request.set_all(true); }));
    }
    const Status early = rig.grow(kWriter, 400'000, 1);
    EXPECT_EQ(early.code(), Code::kUnavailable) << restarts << ": others have written since: " << early;
    proto::SetAttributesRequest cut;
    cut.set_inode(rig.inode);
    cut.set_size(5);
    cut.mutable_change()->set_session(kWriter);
    cut.mutable_change()->set_number(2);
    EXPECT_FALSE(rig.call<proto::InodeResponse>(rpc::Method::kSetAttributes, cut));
    KINTSUGI_EXPECT_OK(rig.keep(kWriter, [&](auto& request) {
      request.set_all(true);
      request.add_lease(rig.inode);
    }));
    EXPECT_EQ(rig.grow(kWriter, 400'000, 3).code(), Code::kLeaseLost) << restarts;
    KINTSUGI_EXPECT_OK(rig.keep(kWriter, [&](auto& request) { request.add_give_back(rig.inode); }));
    KINTSUGI_EXPECT_OK(rig.grow(kWriter, 400'000, 4));
  }
}

TEST(Leases, ALossIsNotedThoughTheEndOfAnEarlierOneIsNotDurableYet) {
  for (Duration early = 10ms; early < 120ms; early += 10ms) {
    std::optional<Status> ended, kept;
    LeaseRig rig;
    KINTSUGI_ASSERT_OK(rig.make_directory("/d"));
    KINTSUGI_ASSERT_OK(rig.put("/d/g"));
    const uint64_t second = rig.open("/d/g")->attributes().inode();
    rig.sync_latency = 50ms;
    rig.restart(false);
    for (const uint64_t session : {kWriter, kReader})
      KINTSUGI_EXPECT_OK(rig.keep(session, [](auto& request) { request.set_all(true); }));
    ASSERT_TRUE(*rig.get(kWriter, true, true));
    ASSERT_TRUE(rig.get_of(rig.inode, kReader, false, false, 20s)) << "its first loss";
    ASSERT_TRUE(*rig.get_of(second, kWriter, false, true));
    proto::SetPolicyRequest policy;
    policy.set_path("/d");
    policy.set_policy("rs-3-2-64k");
    rig.in_background(rpc::Method::kSetPolicy, policy, ended);
    rig.simulation.run_for(5s);
    KINTSUGI_EXPECT_OK(rig.keep(kWriter, [](auto&) {}));
    rig.simulation.run_for(Leases::kTakeOver - 5s - early);
    // It knows of the first loss, and not of the second, which is about to come.
    proto::KeepSessionRequest knows;
    knows.set_session(kWriter);
    knows.add_give_back(rig.inode);
    rig.in_background(rpc::Method::kKeepSession, knows, kept);
    rig.simulation.run_for(2s);
    ASSERT_TRUE(ended && kept);
    KINTSUGI_EXPECT_OK(*ended);
    ASSERT_FALSE(rig.meta->state().clients.leases.owns(InodeId{second}, kWriter));
    rig.restart();
    KINTSUGI_EXPECT_OK(rig.keep(kWriter, [&](auto& request) {
      request.set_all(true);
      request.add_lease(second);
    }));
    EXPECT_FALSE(rig.meta->state().clients.leases.owns(InodeId{second}, kWriter))
        << "others may have written since, " << early.count();
  }
}

TEST(Leases, WhoCouldNotTellSinceTheMetaserverStoodStillAfterItsStartIsBelieved) {
  LeaseRig rig;
  ASSERT_TRUE(*rig.get(kWriter, true, true));
  rig.restart();
  rig.simulation.run_for(Leases::kTakeOver + 1s);
  rig.meta->state().clients.sessions.stood_still(Leases::kTakeOver);
  EXPECT_FALSE(rig.get(kReader)) << "who knows what the writer keeps back";
  KINTSUGI_EXPECT_OK(rig.keep(kWriter, [&](auto& request) {
    request.set_all(true);
    request.add_lease(rig.inode);
  }));
  EXPECT_TRUE(rig.meta->state().clients.leases.owns(InodeId{rig.inode}, kWriter));
}

TEST(Leases, ARecallWhoseAnswerWasLostIsToldAgain) {
  LeaseRig rig;
  EXPECT_TRUE(*rig.get(kWriter, true, true));
  for (int i = 0; i < 3; ++i) {
    KINTSUGI_EXPECT_OK(rig.keep(kWriter, [](auto&) {}));
    EXPECT_EQ(rig.get(kReader).error().code(), Code::kDeadlineExceeded);
    EXPECT_EQ(rig.recalls(kWriter), std::vector<uint64_t>{rig.inode}) << i;
  }
}

TEST(Leases, AWriterThatSaysThatItIsThereIsWaitedFor) {
  LeaseRig rig;
  EXPECT_TRUE(*rig.get(kWriter, true, true));
  for (int i = 0; i < 6; ++i) {
    KINTSUGI_EXPECT_OK(rig.keep(kWriter, [](auto&) {}));
    EXPECT_EQ(rig.get(kReader).error().code(), Code::kDeadlineExceeded);
  }
  KINTSUGI_EXPECT_OK(rig.grow(kWriter, 400'000, 1));
}

TEST(Leases, AfterARestartNobodySeesAFileBeforeThoseThatHadLeasesHaveToldOrAreSilent) {
  LeaseRig rig;
  EXPECT_TRUE(*rig.get(kWriter, true, true));
  rig.restart();
  EXPECT_EQ(rig.get(kReader).error().code(), Code::kDeadlineExceeded)
      << "who knows what the writer keeps back";
  KINTSUGI_EXPECT_OK(rig.keep(kWriter, [&](auto& request) {
    request.set_all(true);
    request.add_lease(rig.inode);
  }));
  EXPECT_EQ(rig.get(kReader).error().code(), Code::kDeadlineExceeded) << "the writer has a lease";
  EXPECT_EQ(rig.recalls(kWriter), std::vector<uint64_t>{rig.inode});
  KINTSUGI_EXPECT_OK(rig.keep(kWriter, [&](auto& request) { request.add_give_back(rig.inode); }));
  EXPECT_TRUE(rig.get(kReader));
  rig.restart();
  rig.pass(11);
  EXPECT_TRUE(rig.get(0)) << "both are silent";
}

TEST(Leases, AFileThatIsGoneIsInNobodysWayWhenManyAreWritten) {
  LeaseRig rig;
  KINTSUGI_ASSERT_OK(rig.put("/g"));
  const uint64_t other = rig.open("/g")->attributes().inode();
  KINTSUGI_ASSERT_OK(rig.remove("/f"));
  proto::WriteExtentsRequest request;
  request.set_inode(rig.inode);
  request.set_size_at_least(10);
  proto::FileExtents& more = *request.add_more();
  more.set_inode(other);
  more.set_size_at_least(1'000'000);
  const auto written = rig.call<proto::WriteExtentsResponse>(rpc::Method::kWriteExtents, request);
  ASSERT_TRUE(written) << written.error();
  EXPECT_EQ(written->code(), static_cast<int>(Code::kStale));
  ASSERT_EQ(written->more_size(), 1);
  EXPECT_EQ(written->more(0).code(), static_cast<int>(Code::kOk));
  EXPECT_EQ(written->more(0).attributes().size(), 1'000'000u);
  EXPECT_EQ(rig.open("/g")->attributes().size(), 1'000'000u);
}

TEST(Leases, AFileWhoseLeaseWasLostIsNotSaidToBeWrittenWhenAWriteOfManyComesAgain) {
  LeaseRig rig;
  KINTSUGI_ASSERT_OK(rig.put("/g"));
  const uint64_t other = rig.open("/g")->attributes().inode();
  ASSERT_TRUE(*rig.get(kWriter, true, true));
  ASSERT_TRUE(rig.get_of(rig.inode, kReader, false, false, 20s)) << "the writer is silent";
  proto::WriteExtentsRequest request;
  request.set_inode(other);
  request.set_size_at_least(1'000'000);
  request.add_more()->set_inode(rig.inode);
  request.mutable_more(0)->set_size_at_least(2'000'000);
  request.mutable_change()->set_session(kWriter);
  request.mutable_change()->set_number(1);
  for (const bool again : {false, true}) {
    const auto written = rig.call<proto::WriteExtentsResponse>(rpc::Method::kWriteExtents, request);
    ASSERT_TRUE(written) << written.error();
    EXPECT_EQ(written->code(), static_cast<int>(Code::kOk)) << again;
    ASSERT_EQ(written->more_size(), 1);
    EXPECT_EQ(written->more(0).code(), static_cast<int>(Code::kLeaseLost)) << again;
  }
}

/// The processes that waits for write leases name now.
std::vector<uint64_t> awaited_processes(const sight::Recorder& recorder) {
  std::vector<uint64_t> processes;
  for (const sight::OpenTask& task : sight::open_tasks(recorder.live()))
    for (const sight::LiveRecord& record : task.records)
      if (record.wait == runtime::WaitKind::kProcess) processes.push_back(record.target_span);
  return processes;
}

TEST(Leases, WhoWaitsSaysWhichProcessKeepsOneAndWhichWhenThatHasGivenItBack) {
  sight::HandClock clock;
  sight::Recorder recorder(clock, 1);
  LeaseRig rig(MetaServerOptions{.recorder = &recorder});
  const auto is_of = [](uint64_t process) {
    return [process](proto::KeepSessionRequest& request) { request.set_process(process); };
  };
  KINTSUGI_ASSERT_OK(rig.keep(kWriter, is_of(111)));
  KINTSUGI_ASSERT_OK(rig.keep(kReader, is_of(222)));
  KINTSUGI_EXPECT_OK(rig.put("/g"));
  const uint64_t other = rig.open("/g")->attributes().inode();
  ASSERT_TRUE(*rig.get(kWriter, true, true));
  ASSERT_TRUE(*rig.get_of(other, kReader, true, true));
  proto::CreateSnapshotRequest snapshot;
  snapshot.set_path("/");
  snapshot.set_name("one");
  std::optional<Status> ended;
  rig.in_background(rpc::Method::kCreateSnapshot, snapshot, ended);
  rig.simulation.run_for(2s);
  EXPECT_THAT(awaited_processes(recorder), testing::ElementsAre(111u)) << "one of the two";
  KINTSUGI_EXPECT_OK(rig.keep(kWriter, [&](auto& request) { request.add_give_back(rig.inode); }));
  rig.simulation.run_for(100ms);
  EXPECT_THAT(awaited_processes(recorder), testing::ElementsAre(222u));
  KINTSUGI_EXPECT_OK(rig.keep(kReader, [&](auto& request) { request.add_give_back(other); }));
  rig.simulation.run_for(1s);
  EXPECT_TRUE(ended);
  EXPECT_THAT(awaited_processes(recorder), testing::IsEmpty());
}

TEST(Leases, ManyProcessesThatKeptOneTakeNoRoomFromOtherNames) {
  sight::HandClock clock;
  sight::Recorder recorder(clock, 1);
  const sight::Task task(recorder.root_context(), rpc::serve_site(rpc::Method::kGetInode));
  for (uint64_t process = 1; process <= 1000; ++process)
    const sight::Wait wait(task.context(), runtime::WaitKind::kProcess,
                           runtime::named_target(task.context(), "write lease"), process);
  const uint64_t late = runtime::named_target(task.context(), "/disks/late", true);
  EXPECT_EQ(recorder.live().targets().name_of(late), "/disks/late");
}

TEST(Leases, ASessionThatHasEndedIsNotAwaitedAfterARestart) {
  LeaseRig rig;
  ASSERT_TRUE(*rig.get(kWriter, true, true));
  for (const uint64_t session : {kWriter, kReader})
    KINTSUGI_EXPECT_OK(rig.keep(session, [](auto& request) { request.set_ends(true); }));
  rig.restart();
  const TimePoint begin = rig.simulation.now();
  EXPECT_TRUE(rig.get(0));
  EXPECT_LT(rig.simulation.now() - begin, 100ms);
}

TEST(Leases, ACallWaitsLongerAfterARestartThanTheMetaserverWaitsForASilentSession) {
  LeaseRig rig;
  ASSERT_TRUE(*rig.get(kWriter, true, true));
  rig.restart();
  const TimePoint begin = rig.simulation.now();
  EXPECT_TRUE(rig.get_of(rig.inode, 0, false, false, 30s)) << "late rather than never";
  EXPECT_LE(rig.simulation.now() - begin, Leases::kTakeOver + 1s);
}

TEST(Leases, WhoGetsOneWithANewFileKnowsWhatOthersDidToItMeanwhile) {
  LeaseRig rig;
  KINTSUGI_EXPECT_OK(rig.make_directory("/d"));
  proto::StatRequest stat;
  stat.set_path("/d");
  const uint64_t directory = rig.call<proto::StatResponse>(rpc::Method::kStat, stat)->attributes().inode();
  // The answer to whoever makes the file waits for a kernel that knows the names in that directory.
  constexpr uint64_t kBeliever = 7;
  KINTSUGI_EXPECT_OK(rig.keep(kBeliever, [](auto& request) {
    request.set_all(true);
    request.set_believes(true);
  }));
  proto::LookupRequest lookup;
  lookup.set_parent(directory);
  lookup.set_name("new");
  lookup.set_session(kBeliever);
  EXPECT_FALSE(rig.call<proto::InodeResponse>(rpc::Method::kLookup, lookup));
  proto::MakeInodeRequest make;
  make.set_parent(directory);
  make.set_name("new");
  make.set_type(proto::Attributes::FILE);
  make.set_mode(0644);
  make.set_hold_for(kWriter);
  make.set_lease(true);
  make.mutable_change()->set_session(kWriter);
  make.mutable_change()->set_number(1);
  proto::InodeResponse made;
  std::optional<Status> ended;
  rig.in_background(rpc::Method::kMakeInode, make, ended, made);
  rig.simulation.run_for(100ms);
  ASSERT_FALSE(ended);
  lookup.set_session(kReader);
  const auto found = rig.call<proto::InodeResponse>(rpc::Method::kLookup, lookup);
  ASSERT_TRUE(found) << found.error();
  rig.inode = found->attributes().inode();
  KINTSUGI_EXPECT_OK(rig.grow(kReader, 10, 1));
  ASSERT_TRUE(rig.simulation.run_until([&] { return ended.has_value(); }, 10s));
  KINTSUGI_EXPECT_OK(*ended);
  ASSERT_TRUE(made.lease()) << "nobody else has it open";
  EXPECT_EQ(made.attributes().size(), 10u) << "whoever has the lease is believed about the size";
}

}  // namespace
}  // namespace kintsugi::metaserver
