#include "monitoring/sight/reporter.h"

#include <gtest/gtest.h>

#include "common/rpc/method.h"
#include "monitoring/sight/module.h"
#include "monitoring/sight/source_place.h"
#include "monitoring/sight/summary.h"
#include "tests/monitoring/hand_clock.h"

namespace kintsugi::sight {
namespace {

constexpr Site kPut{"test.put", {"bytes"}};
constexpr Site kSend{"test.send"};
constexpr Site kServe{"serve.ReadChunk"};

struct Rig {
  HandClock clock;
  Recorder recorder{clock, 1};
  Reporter reporter{recorder,
                    {.kind = "chunkserver", .name = "server 4", .address = "10.0.0.4:9700", .server_id = 7}};

  proto::SightReport report() { return reporter.make(clock.now(), clock.wall_now()); }
  void deliver(proto::SightReportAnswer answer = {}) { reporter.delivered(answer); }
};

TEST(Reporter, TellsWhatStandsStillWithItsPlaceAndWhatItWaitsFor) {
  Rig rig;
  Module put{rig.recorder.root_context(), kPut};
  Task send{put.context(), kSend};
  Wait join{put.context(), WaitKind::kJoin, 0, 0, 6};
  Wait disk{send.context(), WaitKind::kDisk, runtime::named_target(send.context(), "/disks/b", true)};
  (void)rig.report();
  rig.deliver();
  rig.clock.advance(7s);
  const auto report = rig.report();
  EXPECT_EQ(report.process(), rig.recorder.process());
  EXPECT_EQ(report.name(), "server 4");
  EXPECT_FALSE(report.all_live());
  ASSERT_EQ(report.live_size(), 4);
  EXPECT_EQ(report.live(1).wait(), proto::WAIT_JOIN);
  EXPECT_EQ(report.live(1).need(), 6u);
  EXPECT_EQ(report.live(1).target_span(), put.context().trace.span_id);
  EXPECT_TRUE(report.live(2).task_root());
  EXPECT_EQ(report.live(2).parent(), put.context().trace.span_id);
  const auto& wait = report.live(3);
  EXPECT_EQ(wait.wait(), proto::WAIT_DISK);
  EXPECT_EQ(wait.target(), "/disks/b");
  EXPECT_EQ(wait.age_ns(), uint64_t(Duration(7s).count()));
  EXPECT_EQ(wait.still_ns(), uint64_t(Duration(7s).count()));
  EXPECT_EQ(wait.file(), "tests/monitoring/reporter_test.cc");
  EXPECT_GT(wait.line(), 20u);
  EXPECT_NE(wait.function().find("TestBody"), std::string::npos) << wait.function();
  EXPECT_EQ(wait.task(), report.live(2).task());
  EXPECT_NE(wait.task(), report.live(0).task());
  ASSERT_EQ(report.devices_size(), 1);
  EXPECT_EQ(report.devices(0).name(), "/disks/b");
  EXPECT_EQ(report.devices(0).oldest_pending_ns(), uint64_t(Duration(7s).count()));
}

TEST(Reporter, WhatDoesNotMoveIsToldFromASecondOn) {
  Rig rig;
  (void)rig.report();
  rig.deliver();
  Module put{rig.recorder.root_context(), kPut};
  rig.clock.advance(999ms);
  EXPECT_EQ(rig.report().live_size(), 0);
  rig.clock.advance(1ms);
  ASSERT_EQ(rig.report().live_size(), 1);
  EXPECT_EQ(rig.report().live(0).still_ns(), uint64_t(Duration(1s).count()));
}

TEST(Reporter, WhatMovesIsLeftOutUnlessAllIsAskedFor) {
  Rig rig;
  (void)rig.report();
  rig.deliver();
  Module put{rig.recorder.root_context(), kPut};
  rig.clock.advance(900ms);
  EXPECT_EQ(rig.report().live_size(), 0);
  proto::SightReportAnswer answer;
  answer.set_all_live(true);
  rig.deliver(answer);
  const auto all = rig.report();
  EXPECT_EQ(all.live_size(), 1);
  EXPECT_TRUE(all.all_live());
}

TEST(Reporter, WhoIsAskedForEverythingTellsHowMuchItHasDoneThoughNothingIsOpen) {
  Rig rig;
  (void)rig.report();
  rig.deliver();
  for (int i = 0; i < 3; ++i)
    const Module put{rig.recorder.root_context(), kPut};
  rig.clock.advance(100ms);
  EXPECT_EQ(rig.report().roles_size(), 0);
  proto::SightReportAnswer answer;
  answer.set_all_live(true);
  rig.deliver(answer);
  const auto all = rig.report();
  ASSERT_EQ(all.roles_size(), 1);
  EXPECT_EQ(all.roles(0).name(), "test.put");
  EXPECT_EQ(all.roles(0).ended(), 3u);
}

TEST(Reporter, EveryReportTellsWhichRequestsItHasBegunToServe) {
  Rig rig;
  (void)rig.report();
  rig.deliver();
  for (uint64_t served = 1; served <= 3; served++) {
    {
      const Task task{rig.recorder.root_context(), kServe};
    }
    {
      const Task other{rig.recorder.root_context(), kSend};
    }
    rig.clock.advance(1s);
    const auto report = rig.report();
    rig.deliver();
    ASSERT_EQ(report.roles_size(), 1);  // that of others waits for the next report of all totals
    EXPECT_EQ(report.roles(0).name(), "serve.ReadChunk");
    EXPECT_EQ(report.roles(0).begun(), served);
  }
  rig.clock.advance(1s);
  EXPECT_EQ(rig.report().roles_size(), 0);
}

TEST(Reporter, ProgressSaysThatALongRegionMoves) {
  Rig rig;
  Module put{rig.recorder.root_context(), kPut};
  rig.clock.advance(10s);
  put.progress(100);
  rig.clock.advance(2s);
  const auto report = rig.report();
  ASSERT_EQ(report.live_size(), 1);
  EXPECT_EQ(report.live(0).age_ns(), uint64_t(Duration(12s).count()));
  EXPECT_EQ(report.live(0).still_ns(), uint64_t(Duration(2s).count()));
  EXPECT_EQ(report.live(0).progress(), 100u);
}

TEST(Reporter, GoingRoundInALoopOfWaitsIsNoProgress) {
  Rig rig;
  Module put{rig.recorder.root_context(), kPut};
  for (int i = 0; i < 20; ++i) {
    Wait wait{put.context(), WaitKind::kReceive};  // as keep-alives that come
    rig.clock.advance(10s);
  }
  EXPECT_GE(rig.report().live(0).still_ns(), uint64_t(Duration(150s).count()));
}

TEST(Reporter, TheDictionaryIsToldOnceAndAgainWhenItIsAskedFor) {
  Rig rig;
  for (int i = 0; i < 3; ++i) {
    Module put{rig.recorder.root_context(), kPut};
    Module send{put.context(), kSend};
  }
  auto report = rig.report();
  ASSERT_EQ(report.new_paths_size(), 2);
  const auto& path = report.new_paths(0).site() == "test.put" ? report.new_paths(0) : report.new_paths(1);
  EXPECT_EQ(path.inputs(0), "bytes");
  EXPECT_EQ(path.file(), "tests/monitoring/reporter_test.cc");
  EXPECT_NE(path.role_path(), 0u);
  EXPECT_GE(report.new_states_size(), 2);
  EXPECT_EQ(report.new_states(0).state(), 1u);
  EXPECT_EQ(rig.report().new_paths_size(), 2) << "it was not delivered";
  rig.deliver();
  EXPECT_EQ(rig.report().new_paths_size(), 0);
  EXPECT_EQ(rig.report().new_states_size(), 0);
  proto::SightReportAnswer answer;
  answer.set_dictionary(true);
  rig.deliver(answer);
  report = rig.report();
  EXPECT_EQ(report.new_paths_size(), 2);
  EXPECT_GE(report.new_states_size(), 2);
}

TEST(Reporter, AReportIsBoundedAndKeepsTheOldest) {
  Rig rig;
  std::vector<std::unique_ptr<Task>> tasks;
  Module put{rig.recorder.root_context(), kPut};
  for (int i = 0; i < 4000; ++i) {
    tasks.push_back(std::make_unique<Task>(put.context(), kSend));
    rig.clock.advance(1ms);
  }
  rig.clock.advance(5s);
  const auto report = rig.report();
  EXPECT_LE(report.ByteSizeLong(), size_t{64} << 10);
  EXPECT_TRUE(report.truncated());
  EXPECT_GT(report.live_size(), 100);
  EXPECT_EQ(report.live(0).span(), put.context().trace.span_id);
  EXPECT_EQ(report.live(1).span(), tasks[0]->context().trace.span_id);
}

TEST(Reporter, OneLongStayIsToldBeforeWhatHappensOften) {
  Rig rig;
  Reporter small(rig.recorder, {.kind = "chunkserver"}, {.totals_bytes = 1});
  for (int i = 0; i < 1000; ++i) {
    const Task often{rig.recorder.root_context(), kSend};
    rig.clock.advance(1us);
  }
  {
    const Task once{rig.recorder.root_context(), kServe};
    rig.clock.advance(5s);
  }
  const auto edges = small.make(rig.clock.now(), rig.clock.wall_now()).edges();
  ASSERT_GE(edges.size(), 1);
  EXPECT_EQ(edges[0].count(), 1u);
  ASSERT_EQ(edges[0].buckets_size(), 32);
  EXPECT_EQ(edges[0].buckets(31), 1u) << "it is open";
}

TEST(Reporter, WhoseMessagesAreDamagedIsToldAtOnce) {
  Rig rig;
  (void)rig.report();
  rig.deliver();
  for (const rpc::Method method : {rpc::Method::kStat, rpc::Method::kReadChunk})
    runtime::complain_of(rig.recorder.root_context(), {"10.0.0.9", 9700}, static_cast<uint16_t>(method));
  const auto report = rig.report();
  ASSERT_EQ(report.devices_size(), 1);
  EXPECT_EQ(report.devices(0).name(), "10.0.0.9:9700");
  EXPECT_TRUE(report.devices(0).peer());
  EXPECT_EQ(report.devices(0).complaints(), 2u);
  EXPECT_EQ(report.devices(0).complained_of(), "ReadChunk");
}

TEST(Reporter, WhetherACallWasServedIsToldWhenSomebodyMissesIt) {
  Rig rig;
  const Context context = rig.recorder.root_context();
  runtime::served(context, 41, kServe, Code::kOk);
  rig.clock.advance(4s);
  runtime::served(context, 42, kServe, Code::kNotFound);
  rig.clock.advance(2s);
  EXPECT_EQ(rig.report().served_size(), 0) << "nobody has asked";
  proto::SightReportAnswer answer;
  for (const uint64_t call : {41u, 42u, 43u})
    answer.add_calls(call);
  rig.deliver(answer);
  const auto report = rig.report();
  ASSERT_EQ(report.served_size(), 2) << "43 never came";
  EXPECT_EQ(report.served(0).call(), 41u);
  EXPECT_EQ(report.served(0).region(), "serve.ReadChunk");
  EXPECT_EQ(report.served(0).ended_ago_ns(), uint64_t(Duration(6s).count()));
  EXPECT_EQ(report.served(1).outcome(), uint32_t(Code::kNotFound));
  rig.deliver();
  EXPECT_EQ(rig.report().served_size(), 0);
}

TEST(Reporter, OfVeryManyServedCallsTheNewestAreKnown) {
  Rig rig;
  const Context context = rig.recorder.root_context();
  for (uint64_t call = 1; call <= 100'000; ++call)
    runtime::served(context, call, kServe, Code::kOk);
  proto::SightReportAnswer answer;
  for (const uint64_t call : {1u, 90'000u, 100'000u})
    answer.add_calls(call);
  rig.deliver(answer);
  EXPECT_EQ(rig.report().served_size(), 2);
}

TEST(Reporter, ThatWhoeverHasWhatATaskWaitsForHasEndedIsToldThoughItWasNeverShown) {
  Rig rig;
  auto holder = std::make_unique<Task>(rig.recorder.root_context(), kPut);
  const Task send{rig.recorder.root_context(), kSend};
  const Wait wait{send.context(), WaitKind::kResource, runtime::named_target(send.context(), "slots"),
                  holder->context().trace.span_id};
  const auto is_told = [&] {
    const auto report = rig.report();
    return std::ranges::any_of(report.live(), [](const auto& live) { return live.holder_ended(); });
  };
  EXPECT_FALSE(is_told());
  holder.reset();
  EXPECT_TRUE(is_told());
}

TEST(Reporter, ThatItHasBegunToServeIsToldAgainWhenAReportWasLost) {
  Rig rig;
  (void)rig.report();
  rig.deliver();
  const auto served = [](const proto::SightReport& report) {
    for (const proto::SightRole& role : report.roles())
      if (role.name() == kServe.name) return role.begun();
    return uint64_t{0};
  };
  {
    const Task task{rig.recorder.root_context(), kServe};
  }
  EXPECT_EQ(served(rig.report()), 1u);
  EXPECT_EQ(served(rig.report()), 1u) << "the report before it was lost";
  rig.deliver();
  EXPECT_EQ(served(rig.report()), 0u) << "it is known";
}

TEST(Reporter, AnIdleProcessCostsLittle) {
  Rig rig;
  Module loop{rig.recorder.root_context(), kPut};
  Wait idle{loop.context(), WaitKind::kIdle};
  size_t bytes = 0;
  for (int i = 0; i < 100; ++i) {
    bytes += rig.report().ByteSizeLong();
    rig.deliver();
    rig.clock.advance(1s);
  }
  EXPECT_LT(bytes / 100, 200u);
}

TEST(Reporter, AWaitThatTimedOutIsToldOnce) {
  Rig rig;
  Module put{rig.recorder.root_context(), kPut};
  {
    Wait wait{put.context(), WaitKind::kResource};
    rig.clock.advance(5s);
    (void)wait.finish({Code::kDeadlineExceeded, "no slot"});
  }
  rig.clock.advance(1s);
  const auto report = rig.report();
  ASSERT_EQ(report.live_size(), 2);
  EXPECT_EQ(report.live(1).ended_ago_ns(), uint64_t(Duration(1s).count()));
  EXPECT_EQ(report.live(1).age_ns(), uint64_t(Duration(5s).count()));
  EXPECT_EQ(report.live(1).outcome(), uint32_t(Code::kDeadlineExceeded));
  rig.deliver();
  EXPECT_EQ(rig.report().live_size(), 1);
}

TEST(Reporter, SamplesOfAskedRegionsComeOnce) {
  Rig rig;
  proto::SightReportAnswer answer;
  answer.add_samples_of("test.put");
  (void)rig.report();
  rig.deliver(answer);
  for (int i = 0; i < 3; ++i) {
    Module put{rig.recorder.root_context(), kPut, {double(i)}};
    Module send{put.context(), kSend};
    rig.clock.advance(1ms);
  }
  const auto report = rig.report();
  ASSERT_EQ(report.samples_size(), 3);
  EXPECT_EQ(report.samples(0).inputs(0), 2.0f);
  EXPECT_EQ(report.samples(0).duration_ns(), uint64_t(Duration(1ms).count()));
  rig.deliver(answer);
  EXPECT_EQ(rig.report().samples_size(), 0);
}

TEST(Reporter, TheSummaryNamesWhatStandsLongest) {
  Rig rig;
  Module put{rig.recorder.root_context(), kPut};
  Task send{put.context(), kSend};
  Wait disk{send.context(), WaitKind::kDisk, runtime::named_target(send.context(), "/disks/b", true)};
  EXPECT_EQ(summarise(rig.recorder, 3ms).stalled(), 0u);
  rig.clock.advance(9s);
  const auto summary = summarise(rig.recorder, 3ms);
  EXPECT_EQ(summary.stalled(), 2u);
  EXPECT_LE(summary.ByteSizeLong(), 256u);
  EXPECT_EQ(summary.oldest().substr(0, 8), "test.put");
}

TEST(Reporter, FunctionsAreNamedWithoutWhatSurroundsThem) {
  EXPECT_EQ(
      short_function(
          "asio::awaitable<Status> kintsugi::chunkserver::ChunkWriter::append(Context, std::vector<int>)"),
      "chunkserver::ChunkWriter::append");
  EXPECT_EQ(short_function("virtual void kintsugi::(anonymous namespace)::Rig::run()"), "Rig::run");
  EXPECT_EQ(short_function("main"), "main");
}

}  // namespace
}  // namespace kintsugi::sight
