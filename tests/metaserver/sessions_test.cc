// What sessions hold: told in pages, and let go of only once everything was told.
#include "metaserver/sessions/sessions.h"

#include <gtest/gtest.h>

#include "tests/expect_ok.h"
#include "tests/simulation/runtime/sim_node.h"
#include "tests/simulation/runtime/simulation.h"

namespace kintsugi::metaserver {
namespace {

constexpr uint64_t kSession = 5, kHolds = 270'000, kPage = 10'000;

struct SessionsRig {
  /// One page of everything. The first one has the generation for its number.
  Status page(uint64_t generation, uint64_t index, uint64_t count = kHolds) {
    proto::KeepSessionRequest request;
    request.set_session(kSession);
    request.set_all(true);
    request.set_generation(generation);
    request.set_number(generation + index);
    for (uint64_t i = index * kPage; i < std::min(count, (index + 1) * kPage); ++i)
      request.add_hold(i + 1);
    request.set_more((index + 1) * kPage < count);
    response.Clear();
    return sessions.keep(request, response);
  }
  void tell_all(uint64_t generation, uint64_t count = kHolds) {
    for (uint64_t i = 0; i * kPage < count; ++i)
      KINTSUGI_ASSERT_OK(page(generation, i, count));
  }
  uint64_t held(uint64_t count = kHolds) const {
    uint64_t held = 0;
    for (uint64_t i = 1; i <= count; ++i)
      held += sessions.held(InodeId{i}) ? 1 : 0;
    return held;
  }

  simulation::Simulation simulation{1};
  simulation::SimNode node{simulation, "metaserver"};
  Sessions sessions{node.runtime()};
  proto::KeepSessionResponse response;
};

TEST(Sessions, OneWithVeryManyOpenFilesSpeaksAgainAfterALostAnswerAndLosesNone) {
  SessionsRig rig;
  rig.tell_all(1'000);
  EXPECT_FALSE(rig.response.tell_all());
  EXPECT_EQ(rig.held(), kHolds);
  // The answer to the third page is lost: the session begins anew.
  for (uint64_t i = 0; i < 3; ++i)
    KINTSUGI_ASSERT_OK(rig.page(2'000, i));
  EXPECT_EQ(rig.held(), kHolds) << "nothing is let go of before the last page";
  for (uint64_t i = 0; i * kPage < kHolds; ++i) {
    KINTSUGI_ASSERT_OK(rig.page(3'000, i));
    if (i == 5) rig.sessions.hold(kSession, InodeId{kHolds + 1});  // opened by a call meanwhile
    if (i == 6) EXPECT_EQ(rig.page(2'000, 3).code(), Code::kConflict) << "a page that comes late";
  }
  EXPECT_EQ(rig.held(kHolds + 1), kHolds + 1);
  EXPECT_FALSE(rig.response.tell_all());
  rig.tell_all(4'000, 15'000);
  EXPECT_EQ(rig.held(), 15'000u) << "what no page named is let go of";
}

TEST(Sessions, PagesWhoseFirstCameToAnotherProcessAreNotEverything) {
  SessionsRig rig;
  KINTSUGI_ASSERT_OK(rig.page(1'000, 26));  // the last one
  EXPECT_TRUE(rig.response.tell_all());
  EXPECT_TRUE(rig.sessions.has_to_tell(kSession));
  rig.tell_all(2'000);
  EXPECT_FALSE(rig.response.tell_all());
}

TEST(Sessions, AMessageThatWasOvertakenDoesNotChangeWhoseSessionItIs) {
  SessionsRig rig;
  proto::KeepSessionRequest request;
  request.set_session(kSession);
  request.set_number(2);
  request.set_process(222);
  KINTSUGI_EXPECT_OK(rig.sessions.keep(request, rig.response));
  request.set_number(1);
  request.set_process(111);  // the process before it sent this
  EXPECT_EQ(rig.sessions.keep(request, rig.response).code(), Code::kConflict);
  EXPECT_EQ(rig.sessions.find(kSession)->process, 222u);
}

TEST(Sessions, TooManyAreRefusedBeforeAnythingIsLetGoOf) {
  SessionsRig rig;
  rig.tell_all(1'000);
  proto::KeepSessionRequest request;
  request.set_session(kSession);
  request.set_all(true);
  request.set_number(5'000);
  for (uint64_t i = 0; i <= Sessions::kMaxHeld; ++i)
    request.add_hold(1'000'000 + i);
  EXPECT_EQ(rig.sessions.keep(request, rig.response).code(), Code::kLimitExceeded);
  EXPECT_EQ(rig.held(), kHolds);
}

}  // namespace
}  // namespace kintsugi::metaserver
