// Long turns of an event loop are named by the region of code that ran longest in them.
#include "monitoring/sight/live_work.h"
#include "tests/common/loop_turns_rig.h"

namespace kintsugi::sight {
namespace {

using runtime::burn;

constexpr Site kSlow{"test.slow"}, kQuick{"test.quick"}, kTurnsOuter{"test.outer"};

class NamedTurnsTest : public runtime::LoopTurnsTest {};

TEST_F(NamedTurnsTest, AreNamedByTheRegionThatRanLongest) {
  LiveWork live(production_.runtime().clock, true);
  const auto in_region = [&](const Site& site, LiveHandle parent, Duration time) {
    const LiveHandle region = live.open(parent, {.site = &site, .task = parent.slot == 0}, live.now_ns());
    burn(time);
    live.close(region, live.now_ns());
  };
  run({[&] {
         const LiveHandle outer = live.open({}, {.site = &kTurnsOuter, .task = true}, live.now_ns());
         in_region(kQuick, outer, 2ms);
         in_region(kSlow, outer, 30ms);
         in_region(kQuick, outer, 2ms);
         live.close(outer, live.now_ns());
       },
       [&] { in_region(kQuick, {}, 1ms); },  //
       [] { burn(25ms); }});
  ASSERT_EQ(long_.size(), 2u);
  EXPECT_EQ(long_[0].ran, "test.slow");
  EXPECT_EQ(long_[1].ran, "") << "nothing of what it ran has a name";
}

TEST_F(NamedTurnsTest, OfAWaitThatHasBegunAreThoseOfTheRegionBelow) {
  LiveWork live(production_.runtime().clock, true);
  run({[&] {
    Context context;
    context.live = live.open({}, {.site = &kTurnsOuter, .task = true}, live.now_ns());
    const LiveHandle wait =
        live.open_wait(context, WaitKind::kStore, 0, 0, 0, std::source_location::current());
    burn(30ms);
    live.close_wait(wait, Code::kOk);
    live.close(context.live, live.now_ns());
  }});
  ASSERT_EQ(long_.size(), 1u);
  EXPECT_EQ(long_[0].ran, "test.outer");
}

}  // namespace
}  // namespace kintsugi::sight
