// Faults on purpose: as places in the code meet them, and as the operator of a test sets them.
#include "common/runtime/fault_points.h"

#include <filesystem>
#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/proto/faults.pb.h"
#include "common/rpc/change_faults.h"
#include "common/runtime/task_group.h"
#include "tests/common/runtime_virtual_loop.h"

namespace kintsugi::runtime {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

struct FaultPointsTest : ::testing::Test {
  testing::VirtualLoop loop;
  Duration kept_busy{};
  FaultPoints faults{loop.io.get_executor(), loop.clock, [this](Duration lasts) -> asio::awaitable<void> {
                       kept_busy += lasts;
                       co_return;
                     }};
  TaskGroup tasks{loop.io.get_executor(), loop.clock};

  ~FaultPointsTest() override {
    faults.clear();
    loop.run(tasks.join());
  }
  FaultOutcome pass(FaultPoint point, std::string_view detail = "") {
    FaultOutcome outcome;
    loop.run([](FaultPoints& at, FaultPoint place, std::string_view text,
                FaultOutcome& into) -> asio::awaitable<void> {
      into = co_await at.pass(place, text);
    }(faults, point, detail, outcome));
    return outcome;
  }
  /// Begins to pass a place, and says whether it has gone on meanwhile.
  std::shared_ptr<bool> begin_to_pass(FaultPoint point) {
    auto went_on = std::make_shared<bool>(false);
    tasks.spawn([](FaultPoints& at, FaultPoint place, std::shared_ptr<bool> gone) -> asio::awaitable<void> {
      (void)co_await at.pass(place);
      *gone = true;
    }(faults, point, went_on));
    settle();
    return went_on;
  }
  void settle(Duration lasts = 1ns) {
    loop.run([](TaskGroup& group, Duration time) -> asio::awaitable<void> { co_await group.sleep_for(time); }(
                                                     tasks, lasts));
  }
};

TEST_F(FaultPointsTest, NothingHappensWhereNoneIsSet) {
  EXPECT_FALSE(is_armed(&faults));
  EXPECT_FALSE(is_armed(nullptr));
  ASSERT_TRUE(faults.set({.point = FaultPoint::kDiskRead, .action = FaultAction::kError}));
#ifdef KINTSUGI_FAULT_POINTS
  EXPECT_TRUE(is_armed(&faults));
#else
  EXPECT_FALSE(is_armed(&faults)) << "no place is left where anything could happen";
#endif
  EXPECT_TRUE(pass(FaultPoint::kDiskWrite).status.ok());
}

TEST_F(FaultPointsTest, TellWhereAFaultFirstHappenedAndWhichMethodsWerePassed) {
  ASSERT_TRUE(faults.set({.point = FaultPoint::kServeCall, .action = FaultAction::kError, .detail = "Stat"}));
  EXPECT_FALSE(faults.list().front().first) << "nothing has come by yet";
  EXPECT_TRUE(pass(FaultPoint::kServeCall, "List").status.ok());
  EXPECT_FALSE(faults.list().front().first);
  for (int i = 0; i < 2; ++i)
    EXPECT_FALSE(pass(FaultPoint::kServeCall, "Stat").status.ok());
  ASSERT_TRUE(faults.list().front().first);
  EXPECT_TRUE(
      std::string_view(faults.list().front().first->where.file_name()).ends_with("fault_points_test.cc"));
  const auto& passed = faults.methods();
  ASSERT_EQ(passed.size(), 2u);
  EXPECT_EQ(passed.at({FaultPoint::kServeCall, "Stat"}), 2u);
  EXPECT_EQ(passed.at({FaultPoint::kServeCall, "List"}), 1u);
}

TEST_F(FaultPointsTest, AHangEndsWhenItIsRemovedAndNotBefore) {
  const auto number = faults.set({.point = FaultPoint::kOwnSum, .action = FaultAction::kHang});
  ASSERT_TRUE(number);
  const auto first = begin_to_pass(FaultPoint::kOwnSum), second = begin_to_pass(FaultPoint::kOwnSum);
  settle(1h);
  EXPECT_FALSE(*first);
  EXPECT_TRUE(faults.remove(*number).ok());
  settle();
  EXPECT_TRUE(*first);
  EXPECT_TRUE(*second);
  EXPECT_EQ(faults.remove(*number).code(), Code::kNotFound);
}

TEST_F(FaultPointsTest, WhoHangsInOneFaultDoesNotGoOnWhenAnotherIsRemoved) {
  ASSERT_TRUE(faults.set({.point = FaultPoint::kRebuild, .action = FaultAction::kHang}));
  const auto other = faults.set({.point = FaultPoint::kAnswer, .action = FaultAction::kDrop});
  const auto hangs = begin_to_pass(FaultPoint::kRebuild);
  ASSERT_TRUE(faults.remove(*other).ok());
  settle();
  EXPECT_FALSE(*hangs);
}

TEST_F(FaultPointsTest, ADelayLastsAsLongAsItIsToldOrUntilItIsCleared) {
  ASSERT_TRUE(faults.set({.point = FaultPoint::kCall, .action = FaultAction::kDelay, .delay = 10s}));
  const auto waits = begin_to_pass(FaultPoint::kCall);
  settle(9s);
  EXPECT_FALSE(*waits);
  settle(2s);
  EXPECT_TRUE(*waits);
  const auto cleared = begin_to_pass(FaultPoint::kCall);
  faults.clear();
  settle();
  EXPECT_TRUE(*cleared);
}

#ifdef KINTSUGI_FAULT_POINTS
TEST_F(FaultPointsTest, WhatIsLostIsCarriedOutOnceWhenTheFaultIsRemovedOrItsDelayIsOver) {
  int carried_out = 0;
  const auto wake = [&] {
    do_or_lose(&faults, {FaultPoint::kWake, "record", "store"}, [&] { ++carried_out; });
  };
  wake();
  EXPECT_EQ(carried_out, 1) << "no fault is set";

  const auto number = faults.set({.point = FaultPoint::kWake, .action = FaultAction::kHang, .times = 1});
  wake();
  settle(1h);
  EXPECT_EQ(carried_out, 1);
  EXPECT_EQ(faults.list().front().first->region, "store") << "whose wait it is";
  EXPECT_EQ(faults.methods().at({FaultPoint::kWake, "record"}), 1u);
  wake();
  EXPECT_EQ(carried_out, 2) << "it happens once";
  ASSERT_TRUE(faults.remove(*number).ok());
  settle();
  EXPECT_EQ(carried_out, 3);

  ASSERT_TRUE(faults.set({.point = FaultPoint::kWake, .action = FaultAction::kDelay, .delay = 10s}));
  wake();
  settle(9s);
  EXPECT_EQ(carried_out, 3);
  settle(2s);
  EXPECT_EQ(carried_out, 4);
  wake();
  faults.clear();
  settle(20s);
  EXPECT_EQ(carried_out, 5) << "not once more when its delay would have been over";
}

TEST_F(FaultPointsTest, WhatIsLostStaysLostWhenTheFaultPointsEnd) {
  bool carried_out = false;
  {
    FaultPoints own(loop.io.get_executor(), loop.clock);
    ASSERT_TRUE(own.set({.point = FaultPoint::kRelease, .action = FaultAction::kDelay, .delay = 10s}));
    do_or_lose(&own, {FaultPoint::kRelease, "buffer"}, [&] { carried_out = true; });
  }
  settle(20s);
  EXPECT_FALSE(carried_out) << "whom it was for may be gone as well";
}
#endif

TEST_F(FaultPointsTest, AnErrorHasItsCodeAndSaysThatItWasAskedFor) {
  ASSERT_TRUE(
      faults.set({.point = FaultPoint::kStoreCommit, .action = FaultAction::kError, .code = Code::kCorrupt}));
  const Status status = pass(FaultPoint::kStoreCommit).status;
  EXPECT_EQ(status.code(), Code::kCorrupt);
  EXPECT_THAT(status.message(), HasSubstr("as asked for at store-commit"));
}

TEST_F(FaultPointsTest, WhatIsDoneToAMessageIsToldToThePlaceThatHasIt) {
  for (const auto& [action, member] : {std::pair(FaultAction::kCorrupt, &FaultOutcome::corrupt),
                                       {FaultAction::kDrop, &FaultOutcome::drop},
                                       {FaultAction::kRepeat, &FaultOutcome::repeat}}) {
    faults.clear();
    ASSERT_TRUE(faults.set({.point = FaultPoint::kSendChunk, .action = action}));
    const FaultOutcome outcome = pass(FaultPoint::kSendChunk);
    EXPECT_TRUE(outcome.*member) << name_of(action);
    EXPECT_EQ(outcome.corrupt + outcome.drop + outcome.repeat, 1) << name_of(action);
    EXPECT_TRUE(outcome.status.ok());
  }
}

TEST_F(FaultPointsTest, ALoopKeepsTheThreadAndAWalkAndALeakDoNot) {
  ASSERT_TRUE(faults.set({.point = FaultPoint::kServeCall, .action = FaultAction::kCpuLoop, .delay = 12s}));
  pass(FaultPoint::kServeCall);
  EXPECT_EQ(kept_busy, 12s);
  faults.clear();
  for (const FaultAction action : {FaultAction::kMemoryWalk, FaultAction::kLeak}) {
    ASSERT_TRUE(
        faults.set({.point = FaultPoint::kDiskWrite, .action = action, .delay = 1ms, .bytes = 1 << 20}));
    EXPECT_TRUE(pass(FaultPoint::kDiskWrite).status.ok());
  }
  EXPECT_EQ(kept_busy, 12s);
}

size_t open_descriptors() {
  return static_cast<size_t>(std::distance(std::filesystem::directory_iterator("/proc/self/fd"),
                                           std::filesystem::directory_iterator()));
}

TEST_F(FaultPointsTest, ALeakedSocketStaysOpenUntilTheFaultsAreCleared) {
  const size_t before = open_descriptors();
  ASSERT_TRUE(faults.set({.point = FaultPoint::kServeCall, .action = FaultAction::kLeakSocket, .times = 3}));
  for (int i = 0; i < 5; ++i)
    EXPECT_TRUE(pass(FaultPoint::kServeCall).status.ok());
  EXPECT_EQ(open_descriptors(), before + 3);
  faults.clear();
  EXPECT_EQ(open_descriptors(), before);
}

TEST_F(FaultPointsTest, SkipTimesAndDetailChooseThePasses) {
  ASSERT_TRUE(faults.set({.point = FaultPoint::kServeStream,
                          .action = FaultAction::kDrop,
                          .detail = "Partial",
                          .skip = 2,
                          .times = 3}));
  std::string happened;
  for (int i = 0; i < 8; ++i) {
    EXPECT_FALSE(pass(FaultPoint::kServeStream, "ReadChunk").drop);
    happened += pass(FaultPoint::kServeStream, "PartialSum").drop ? 'x' : '-';
  }
  EXPECT_EQ(happened, "--xxx---");
  ASSERT_THAT(faults.list(), SizeIs(1));
  EXPECT_EQ(faults.list()[0].passed, 8U);
  EXPECT_EQ(faults.list()[0].happened, 3U);
  EXPECT_EQ(faults.passes()[static_cast<size_t>(FaultPoint::kServeStream)], 16U) << "of all details";
}

TEST_F(FaultPointsTest, EveryNameLeadsBackAndAnUnknownOneListsThoseThatThereAre) {
  for (size_t i = 0; i < static_cast<size_t>(FaultPoint::kCount); ++i) {
    const auto point = static_cast<FaultPoint>(i);
    EXPECT_EQ(*fault_point_of(name_of(point)), point);
  }
  for (size_t i = 0; i < static_cast<size_t>(FaultAction::kCount); ++i) {
    const auto action = static_cast<FaultAction>(i);
    EXPECT_EQ(*fault_action_of(name_of(action)), action);
  }
  EXPECT_THAT(fault_point_of("disk-raed").error().message(),
              AllOf(HasSubstr("'disk-raed'"), HasSubstr("disk-read")));
  EXPECT_THAT(fault_action_of("hnag").error().message(), AllOf(HasSubstr("'hnag'"), HasSubstr("hang")));
  EXPECT_FALSE(fault_point_of(""));
}

// ---- the call ----------------------------------------------------------------------------------------------------------

struct ChangeFaultsTest : FaultPointsTest {
  Status change(const proto::ChangeFaultsRequest& request) {
    Status status;
    answer.Clear();
    loop.run([](ChangeFaultsTest& test, const proto::ChangeFaultsRequest& wanted,
                Status& into) -> asio::awaitable<void> {
      into =
          co_await rpc::ChangeFaults(test.built_in ? &test.faults : nullptr)(Context(), wanted, test.answer);
    }(*this, request, status));
    return status;
  }
  static proto::ChangeFaultsRequest one(const std::string& point, const std::string& action) {
    proto::ChangeFaultsRequest request;
    request.add_set()->set_point(point);
    request.mutable_set(0)->set_action(action);
    return request;
  }
  bool built_in = true;
  proto::ChangeFaultsResponse answer;
};

TEST_F(ChangeFaultsTest, ADaemonWithoutFaultPointsSaysSoInOneLine) {
  built_in = false;
  for (const auto& request : {proto::ChangeFaultsRequest(), one("disk-read", "hang")}) {
    const Status status = change(request);
    EXPECT_EQ(status.code(), Code::kNotSupported);
    EXPECT_THAT(status.message(), AllOf(HasSubstr("built without fault points"), Not(HasSubstr("\n"))));
    EXPECT_THAT(faults.list(), IsEmpty());
  }
}

TEST_F(ChangeFaultsTest, EveryKindIsSetAndToldAsItWasAsked) {
  for (size_t i = 0; i < static_cast<size_t>(FaultAction::kCount); ++i) {
    proto::ChangeFaultsRequest request = one("disk-sync", std::string(name_of(static_cast<FaultAction>(i))));
    proto::InjectedFault& wanted = *request.mutable_set(0);
    wanted.set_detail("disk1");
    wanted.set_skip(3);
    wanted.set_times(2);
    wanted.set_delay_ms(1500);
    wanted.set_code("corrupt");
    wanted.set_bytes(4096);
    request.set_clear(true);
    ASSERT_TRUE(change(request).ok());
    ASSERT_EQ(answer.faults_size(), 1);
    const proto::InjectedFault& told = answer.faults(0);
    EXPECT_EQ(told.action(), wanted.action());
    EXPECT_EQ(told.point(), "disk-sync");
    EXPECT_EQ(told.detail(), "disk1");
    EXPECT_EQ(told.skip(), 3U);
    EXPECT_EQ(told.times(), 2U);
    EXPECT_EQ(told.delay_ms(), 1500U);
    EXPECT_EQ(told.code(), "corrupt");
    EXPECT_EQ(told.bytes(), 4096U);
  }
}

TEST_F(ChangeFaultsTest, WhatMakesNoSenseGetsOneLineAndChangesNothing) {
  ASSERT_TRUE(change(one("disk-read", "hang")).ok());
  const uint64_t number = answer.faults(0).number();
  const auto bad = [](const std::function<void(proto::ChangeFaultsRequest&)>& spoil) {
    // In one request with what would be right, which is not done either.
    proto::ChangeFaultsRequest request = one("disk-write", "delay");
    *request.add_set() = request.set(0);
    spoil(request);
    return request;
  };
  const std::vector<proto::ChangeFaultsRequest> requests{
      bad([](auto& r) { r.mutable_set(1)->set_point("nowhere"); }),
      bad([](auto& r) { r.mutable_set(1)->set_action(""); }),
      bad([](auto& r) { r.mutable_set(1)->set_code("no-such-error"); }),
      bad([](auto& r) {
        r.mutable_set(1)->set_point("wake");  // which is lost, or comes late
        r.mutable_set(1)->set_action("error");
      }),
      bad([](auto& r) { r.mutable_set(1)->set_code("unknown code"); }),
      bad([](auto& r) { r.mutable_set(1)->set_delay_ms(3'600'001); }),
      bad([](auto& r) { r.mutable_set(1)->set_bytes((4ULL << 30) + 1); }),
      bad([&](auto& r) {
        r.add_remove(number);
        r.add_remove(number + 77);
      }),
      bad([](auto& r) {
        for (size_t i = 0; i < FaultPoints::kMaxFaults; ++i)
          *r.add_set() = r.set(0);
      })};
  for (const proto::ChangeFaultsRequest& request : requests) {
    const Status status = change(request);
    EXPECT_FALSE(status.ok()) << request.set(1).point() << request.set(1).action();
    EXPECT_THAT(status.message(), AllOf(Not(IsEmpty()), Not(HasSubstr("\n"))));
    ASSERT_THAT(faults.list(), SizeIs(1)) << request.set(1).point() << request.set(1).action();
    EXPECT_EQ(faults.list()[0].number, number);
  }
}

TEST_F(ChangeFaultsTest, AsManyAsThereMayBeAreSetAndClearingMakesRoom) {
  proto::ChangeFaultsRequest full;
  for (size_t i = 0; i < FaultPoints::kMaxFaults; ++i)
    *full.add_set() = one("heartbeat", "delay").set(0);
  ASSERT_TRUE(change(full).ok());
  EXPECT_EQ(change(one("heartbeat", "hang")).code(), Code::kLimitExceeded);
  proto::ChangeFaultsRequest instead = one("heartbeat", "hang");
  instead.set_clear(true);
  EXPECT_TRUE(change(instead).ok());
  EXPECT_EQ(answer.faults_size(), 1);
  EXPECT_EQ(answer.passes_size(), static_cast<int>(FaultPoint::kCount)) << "every place is told";
}

}  // namespace
}  // namespace kintsugi::runtime
