// Which bytes received are which that were sent.
#include "tracing/flow/matching.h"

#include "common/base/draws.h"
#include "tests/tracing/rig.h"

namespace kintsugi::flow {
namespace {

using Pair = std::tuple<EventId, uint32_t, EventId, uint32_t>;

std::vector<Pair> pairs_of(const Matching& matching) {
  std::vector<Pair> pairs;
  for (const Unit& unit : matching.units)
    pairs.emplace_back(unit.send, unit.send_piece, unit.recv, unit.recv_piece);
  return pairs;
}

TEST(Matching, StreamsAreCutAsInFigure41) {
  Rig rig;
  const uint32_t channel = rig.channel();
  const EventId s1 = rig.send({0}, channel, 0, 10), s2 = rig.send({0}, channel, 10, 10);
  const EventId r1 = rig.recv({1}, channel, 0, 6), r2 = rig.recv({1}, channel, 6, 8),
                r3 = rig.recv({1}, channel, 14, 6);
  const Trace trace = rig.trace();
  EXPECT_THAT(pairs_of(match_messages(trace)), testing::ElementsAre(Pair{s1, 1, r1, 1}, Pair{s1, 2, r2, 1},
                                                                    Pair{s2, 1, r2, 2}, Pair{s2, 2, r3, 1}));
}

TEST(Matching, WhatWasOnItsWayBeforeTracingHasNoSend) {
  Rig rig;
  const uint32_t channel = rig.channel();
  const EventId old = rig.recv({1}, channel, -7, 7), sent = rig.send({0}, channel, 0, 5),
                received = rig.recv({1}, channel, 0, 5);
  const Trace trace = rig.trace();
  EXPECT_THAT(pairs_of(match_messages(trace)),
              testing::ElementsAre(Pair{kNone, 0, old, 1}, Pair{sent, 1, received, 1}));
}

TEST(Matching, AReceiveThatReachesOverBothOldAndNewBytesHasAPieceOfEach) {
  Rig rig;
  const uint32_t channel = rig.channel();
  const EventId received = rig.recv({1}, channel, -7, 12), sent = rig.send({0}, channel, 0, 5);
  const Trace trace = rig.trace();
  EXPECT_THAT(pairs_of(match_messages(trace)),
              testing::ElementsAre(Pair{kNone, 0, received, 1}, Pair{sent, 1, received, 2}));
}

TEST(Matching, DatagramsMatchByTheirMarkAndLostOnesDoNot) {
  Rig rig;
  const uint32_t channel = rig.channel(true);
  const EventId a = rig.send({0}, channel, 100, 50), lost = rig.send({0}, channel, 101, 50),
                c = rig.send({0}, channel, 102, 50);
  const EventId late = rig.recv({1}, channel, 102, 50), first = rig.recv({1}, channel, 100, 50);
  rig.recv({1}, channel, 100, 50);  // twice on the way
  const Trace trace = rig.trace();
  const Matching matching = match_messages(trace);
  EXPECT_THAT(pairs_of(matching),
              testing::ElementsAre(Pair{a, 1, first, 1}, Pair{lost, 1, kNone, 0}, Pair{c, 1, late, 1}));
  EXPECT_EQ(matching.overlaps, 1u);
}

TEST(Matching, ChannelsDoNotMix) {
  Rig rig;
  const uint32_t one = rig.channel(), two = rig.channel();
  rig.send({0}, one, 0, 10);
  rig.recv({1}, two, 0, 10);
  const Trace trace = rig.trace();
  for (const Unit& unit : match_messages(trace).units)
    EXPECT_TRUE(unit.send == kNone || unit.recv == kNone);
}

/// Every byte of the stream has the send and the receive that claim it first, whatever order and holes there are.
TEST(Matching, EveryByteHasItsSendAndItsReceive) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    Draws draws(seed);
    Rig rig;
    const uint32_t channel = rig.channel();
    std::vector<EventId> sent(400, kNone), received(400, kNone);
    for (const bool sending : {true, false}) {
      std::vector<EventId>& bytes = sending ? sent : received;
      for (size_t at = draws.below(5); at < bytes.size();) {
        const size_t size = std::min<size_t>(1 + draws.below(30), bytes.size() - at);
        const bool hole = draws.below(10) == 0;
        if (!hole) {
          const EventId id = sending ? rig.send({0}, channel, static_cast<int64_t>(at), size)
                                     : rig.recv({1}, channel, static_cast<int64_t>(at), size);
          std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(at), size, id);
        }
        at += size;
      }
    }
    const Trace trace = rig.trace();
    std::vector<EventId> sent_now(400, kNone), received_now(400, kNone);
    const Matching matching = match_messages(trace);
    EXPECT_EQ(matching.overlaps, 0u);
    EXPECT_LE(matching.units.size(), 2 * trace.size());
    for (const Unit& unit : matching.units)
      for (int64_t at = unit.begin; at < unit.end; ++at) {
        sent_now[static_cast<size_t>(at)] = unit.send;
        received_now[static_cast<size_t>(at)] = unit.recv;
      }
    EXPECT_EQ(sent_now, sent) << "seed " << seed;
    EXPECT_EQ(received_now, received) << "seed " << seed;
  }
}

TEST(Matching, TwoSendsOfTheSameBytesAreSaid) {
  Rig rig;
  const uint32_t channel = rig.channel();
  const EventId first = rig.send({0}, channel, 0, 10), second = rig.send({0}, channel, 5, 10),
                got = rig.recv({1}, channel, 0, 15);
  const Trace trace = rig.trace();
  const Matching matching = match_messages(trace);
  EXPECT_EQ(matching.overlaps, 1u);
  EXPECT_THAT(pairs_of(matching), testing::ElementsAre(Pair{first, 1, got, 1}, Pair{second, 1, got, 2}));
}

TEST(Trace, AnEventThatNamesWhatThereIsNotIsRefused) {
  const Recorded good = [] {
    Rig rig;
    rig.entry({0}, "f");
    rig.send({0}, rig.channel(), 0, 1);
    rig.directive({0}, Kind::kBegin, "a", 1);
    return rig.recorded;
  }();
  EXPECT_TRUE(Trace::from(good));
  const auto refused = [&](size_t event, auto change) {
    Recorded bad = good;
    change(bad.events[event]);
    const auto trace = Trace::from(std::move(bad));
    return !trace && trace.error().code() == Code::kCorrupt;
  };
  EXPECT_TRUE(refused(0, [](Event& event) { event.process = 1; }));
  EXPECT_TRUE(refused(0, [](Event& event) { event.function = 1; }));
  EXPECT_TRUE(refused(0, [](Event& event) { event.function = kNone; }));
  EXPECT_TRUE(refused(0, [](Event& event) { event.kind = static_cast<Kind>(200); }));
  EXPECT_TRUE(refused(0, [](Event& event) { event.time_ns = std::numeric_limits<int64_t>::min(); }));
  EXPECT_TRUE(refused(1, [](Event& event) { event.channel = 1; }));
  EXPECT_TRUE(refused(1, [](Event& event) { event.size = ~uint64_t{0}; }));
  EXPECT_TRUE(refused(1, [](Event& event) { event.offset = std::numeric_limits<int64_t>::max(); }));
  EXPECT_TRUE(refused(2, [](Event& event) { event.attribute = kNone; }));
}

TEST(Trace, ThreadsKeepTheirOrderHoweverTheyAreMixed) {
  Rig rig;
  const EventId a = rig.other({1, 7}, 5), b = rig.other({0, 9}, 1), c = rig.other({1, 7}, 3),
                d = rig.other({0, 2}, 1);
  const Trace trace = rig.trace();
  ASSERT_EQ(trace.threads().size(), 3u);
  EXPECT_THAT(trace.threads()[0].events, testing::ElementsAre(d));
  EXPECT_THAT(trace.threads()[1].events, testing::ElementsAre(b));
  EXPECT_THAT(trace.threads()[2].events, testing::ElementsAre(a, c))
      << "as recorded, not by a clock that steps back";
  EXPECT_EQ(trace.previous(c), a);
  EXPECT_EQ(trace.previous(a), kNone);
}

}  // namespace
}  // namespace kintsugi::flow
