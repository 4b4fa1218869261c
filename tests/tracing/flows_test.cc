// Which event belongs to which flow.
#include "tracing/flow/flows.h"

#include "tests/tracing/rig.h"
#include "tracing/flow/dependence_graph.h"
#include "tracing/flow/directives.h"
#include "tracing/flow/dpm.h"
#include "tracing/flow/scopes.h"

namespace kintsugi::flow {
namespace {

/// Figures 4.8 and 4.9: a server takes two requests, queues both, and works on them in the order of the queue.
struct Queue {
  explicit Queue(bool directives) {
    const At server{0}, one{1}, two{2};
    const uint32_t from_one = rig.channel(), from_two = rig.channel();
    const auto step = [&](Kind kind, uint64_t value) {
      return directives ? rig.directive(server, kind, "queue", value) : rig.other(server);
    };
    r1 = rig.recv(server, from_one, 0, 8);
    enq1 = step(Kind::kBegin, 1);
    r2 = rig.recv(server, from_two, 0, 8);
    enq2 = step(Kind::kBegin, 2);
    deq1 = step(Kind::kEnd, 1);
    w1 = rig.other(server);
    deq2 = step(Kind::kEnd, 2);
    w2 = rig.other(server);
    s1 = rig.send(one, from_one, 0, 8);
    s2 = rig.send(two, from_two, 0, 8);
  }
  Rig rig;
  EventId r1, enq1, r2, enq2, deq1, w1, deq2, w2, s1, s2;
};

TEST(Flows, RulesAloneLoseTheFirstRequestInAQueue) {
  const Queue queue(false);
  const Trace trace = queue.rig.trace();
  const std::vector<EventId> starts{queue.s1, queue.s2};
  const Flows flows = flows_in(trace, {.starts = starts});
  ASSERT_EQ(flows.flows.size(), 2u);
  const FlowId first = flows.of[queue.s1], second = flows.of[queue.s2];
  EXPECT_NE(first, second);
  for (EventId id : {queue.r1, queue.enq1})
    EXPECT_EQ(flows.of[id], first);
  for (EventId id : {queue.r2, queue.enq2, queue.deq1, queue.w1, queue.deq2, queue.w2})
    EXPECT_EQ(flows.of[id], second) << "figure 4.8b: event " << id;
}

TEST(Flows, DirectivesKeepThemApart) {
  const Queue queue(true);
  const Trace trace = queue.rig.trace();
  const std::vector<EventId> starts{queue.s1, queue.s2};
  const Flows flows = flows_in(trace, {.starts = starts});
  ASSERT_EQ(flows.flows.size(), 2u);
  for (EventId id : {queue.r1, queue.enq1, queue.deq1, queue.w1})
    EXPECT_EQ(flows.of[id], flows.of[queue.s1]) << "figure 4.9: event " << id;
  for (EventId id : {queue.r2, queue.enq2, queue.deq2, queue.w2})
    EXPECT_EQ(flows.of[id], flows.of[queue.s2]) << "figure 4.9: event " << id;
  const Flows ruled = flows_in(trace, {.starts = starts, .directives = false});
  EXPECT_EQ(ruled.of[queue.w1], ruled.of[queue.s2]);
}

TEST(Flows, ATimerIdThatIsUsedAgainBelongsToWhoMadeItLast) {
  Rig rig;
  const At server{0}, client{1};
  const uint32_t channel = rig.channel();
  const EventId a = rig.other(server), nt1 = rig.directive(server, Kind::kBegin, "timer", 5);
  const EventId rh1 = rig.directive(server, Kind::kEnd, "timer", 5), b = rig.recv(server, channel, 0, 1);
  const EventId nt2 = rig.directive(server, Kind::kBegin, "timer", 5),
                rh2 = rig.directive(server, Kind::kEnd, "timer", 5);
  const EventId s = rig.send(client, channel, 0, 1);
  const Trace trace = rig.trace();
  const std::vector<EventId> starts{a, s};
  const Flows flows = flows_in(trace, {.starts = starts});
  for (EventId id : {nt1, rh1})
    EXPECT_EQ(flows.of[id], flows.of[a]) << "figure 4.10";
  for (EventId id : {b, nt2, rh2})
    EXPECT_EQ(flows.of[id], flows.of[s]) << "figure 4.10";
}

TEST(Flows, AMessageFromWhoIsNotTracedStartsAFlow) {
  Rig rig;
  const At web{0}, browser{1};
  const uint32_t one = rig.channel(), two = rig.channel();
  const EventId r1 = rig.recv(web, one, 0, 4), x = rig.other(web), r2 = rig.recv(web, two, 0, 4),
                y = rig.other(web);
  const EventId click = rig.other(browser), s1 = rig.send(browser, one, 0, 4);
  const Trace trace = rig.trace();
  const std::vector<EventId> starts{click};
  const Flows flows = flows_in(trace, {.starts = starts});
  for (EventId id : {r1, x, s1})
    EXPECT_EQ(flows.of[id], flows.of[click]) << "figure 4.7";
  EXPECT_EQ(flows.of[y], flows.of[r2]);
  EXPECT_NE(flows.of[r2], flows.of[click]);
  EXPECT_EQ(flows.flows[flows.of[r2]].root, r2);
  EXPECT_EQ(flows.flows[flows.of[r2]].reason, Reason::kUnmatchedReceive);
}

TEST(Flows, AStartEventBelongsToNoFlowBeforeIt) {
  Rig rig;
  rig.start({0});
  const EventId mine = rig.other({0}), again = rig.start({0}), next = rig.other({0});
  const Trace trace = rig.trace();
  const Flows flows = flows_in(trace);
  EXPECT_EQ(flows.flows.size(), 2u);
  EXPECT_EQ(flows.of[next], flows.of[again]);
  EXPECT_NE(flows.of[next], flows.of[mine]);
  EXPECT_EQ(flows.flows[flows.of[again]].events, 2u);
}

TEST(Flows, ADirectiveLabelsTheEntryOrExitBeforeIt) {
  Rig rig;
  const At poster{0, 1}, worker{0, 2};
  rig.start(poster, 10);
  rig.entry(poster, "put", 11);
  const EventId put = rig.directive(poster, Kind::kBegin, "job", 7, 12, "put");
  rig.start(worker, 1);
  rig.entry(worker, "take", 2);
  const EventId taken = rig.exit(worker, "take", 20),
                label = rig.directive(worker, Kind::kEnd, "job", 7, 21, "take");
  const EventId work = rig.entry(worker, "work", 22);
  const Trace trace = rig.trace();
  const Flows flows = flows_in(trace);
  for (EventId id : {taken, label, work})
    EXPECT_EQ(flows.of[id], flows.of[put]) << "another thread goes on with it";
  EXPECT_EQ(flows.parent[taken], put);
}

TEST(Flows, AnEndThatNobodyBeganIsAnOrphan) {
  Rig rig;
  rig.start({0});
  const EventId mine = rig.other({0}), end = rig.directive({0}, Kind::kEnd, "timer", 9),
                after = rig.other({0});
  const Trace trace = rig.trace();
  const Flows flows = flows_in(trace);
  EXPECT_NE(flows.of[end], flows.of[mine]);
  EXPECT_EQ(flows.of[after], flows.of[end]);
  EXPECT_EQ(flows.flows[flows.of[end]].reason, Reason::kUnmatchedEnd);
}

TEST(Flows, AnIdThatIsNeverUsedAgainNeedsNoBegin) {
  Rig rig;
  const EventId a = rig.start({0}), a1 = rig.directive({0}, Kind::kUse, "operation", 1);
  const EventId b = rig.start({0}), b1 = rig.directive({0}, Kind::kUse, "operation", 2);
  const EventId a2 = rig.directive({0}, Kind::kUse, "operation", 1), a3 = rig.other({0});
  const EventId b2 = rig.directive({0}, Kind::kUse, "operation", 2),
                a4 = rig.directive({0}, Kind::kUse, "operation", 1);
  const Trace trace = rig.trace();
  const Flows flows = flows_in(trace);
  for (EventId id : {a1, a2, a3, a4})
    EXPECT_EQ(flows.of[id], flows.of[a]);
  for (EventId id : {b1, b2})
    EXPECT_EQ(flows.of[id], flows.of[b]);
}

TEST(Flows, ValuesOfOneProcessMeanNothingInAnother) {
  Rig rig;
  rig.start({0});
  rig.directive({0}, Kind::kBegin, "queue", 1, 1);
  const EventId elsewhere = rig.directive({1}, Kind::kEnd, "queue", 1, 2);
  const Trace trace = rig.trace();
  const Flows flows = flows_in(trace);
  EXPECT_EQ(flows.flows[flows.of[elsewhere]].root, elsewhere);
}

/// Three flows wait for one group commit, which a log thread does for all of them.
struct GroupCommit {
  GroupCommit() {
    rig.attribute("batch", true);
    const At log{0, 9};
    for (uint32_t thread = 0; thread < 3; ++thread) {
      starts.push_back(rig.start({0, thread}, 1 + thread));
      rig.directive({0, thread}, Kind::kBegin, "batch", 4, 10 + thread);
      rig.directive({0, thread}, Kind::kBegin, "waiter", thread, 10 + thread);
    }
    idle = rig.other(log, 0);
    commit = rig.directive(log, Kind::kEnd, "batch", 4, 20);
    sync = rig.entry(log, "sync", 21);
    wake = rig.directive(log, Kind::kEnd, "waiter", 1, 22);
    reply = rig.other(log, 23);
  }
  Rig rig;
  std::vector<EventId> starts;
  EventId idle, commit, sync, wake, reply;
};

TEST(Flows, AGroupCommitIsTheFirstFlowsAndSharedWithTheOthers) {
  const GroupCommit group;
  const Trace trace = group.rig.trace();
  const Flows flows = flows_in(trace);
  const FlowId first = flows.of[group.starts[0]], second = flows.of[group.starts[1]],
               third = flows.of[group.starts[2]];
  EXPECT_EQ(flows.of[group.sync], first);
  EXPECT_THAT(flows.others_of(group.commit), testing::ElementsAre(second, third));
  EXPECT_THAT(flows.others_of(group.sync), testing::ElementsAre(second, third));
  EXPECT_EQ(flows.of[group.reply], second) << "the waiter's own event";
  EXPECT_THAT(flows.others_of(group.reply), testing::IsEmpty());
  EXPECT_THAT(flows.others_of(group.idle), testing::IsEmpty());
}

TEST(Flows, AValueThatVeryManyShareCostsLittle) {
  Rig rig;
  rig.attribute("batch", true);
  for (uint32_t i = 0; i < 20'000; ++i) {
    rig.start({0});
    rig.directive({0}, Kind::kBegin, "batch", 1);
    rig.directive({0}, Kind::kUse, "batch", 1);
  }
  const EventId end = rig.directive({0}, Kind::kEnd, "batch", 1);
  const Trace trace = rig.trace();
  const Flows flows = flows_in(trace);
  EXPECT_EQ(flows.of[end], flows.of[0]);
  EXPECT_EQ(flows.others_of(end).size(), kMostSharing);
}

TEST(Flows, WaitingForWorkBelongsToNobody) {
  Rig rig;
  const uint32_t channel = rig.channel();
  rig.start({0});
  const EventId mine = rig.other({0}), wait = rig.entry({0}, "poll"), woken = rig.exit({0}, "poll");
  const EventId got = rig.recv({0}, channel, 0, 4), again = rig.entry({0}, "poll");
  const Trace trace = rig.trace();
  const std::vector<FunctionId> idle =
      idle_functions(trace.functions(), std::vector<Idle>{{"poll"}, {"not there"}});
  const Flows flows = flows_in(trace, {.idle = idle});
  EXPECT_NE(flows.of[wait], flows.of[mine]);
  EXPECT_EQ(flows.of[woken], flows.of[wait]);
  EXPECT_EQ(flows.of[again], flows.of[wait]) << "one for each thread";
  EXPECT_EQ(flows.flows[flows.of[got]].events, 1u);
  EXPECT_EQ(flows.flows[flows.of[wait]].reason, Reason::kIdle);
}

TEST(Flows, WhatFollowsALossBelongsToNobodyUntilAMessageComes) {
  Rig rig;
  const uint32_t channel = rig.channel();
  const EventId start = rig.start({0}), sent = rig.send({0}, channel, 0, 4);
  rig.start({1});
  const EventId lost = rig.add({.process = 1, .kind = Kind::kLost}), after = rig.other({1});
  const EventId got = rig.recv({1}, channel, 0, 4);
  const Trace trace = rig.trace();
  const Flows flows = flows_in(trace);
  EXPECT_EQ(flows.flows[flows.of[after]].root, lost);
  EXPECT_EQ(flows.flows[flows.of[after]].reason, Reason::kAfterLoss);
  EXPECT_EQ(flows.of[got], flows.of[start]);
  EXPECT_EQ(flows.parent[got], sent);
}

TEST(Flows, JoinsOfARepairTreeAreKeptAsEdges) {
  Rig rig;
  const uint32_t out[] = {rig.channel(), rig.channel()}, back[] = {rig.channel(), rig.channel()};
  rig.start({0});
  rig.send({0}, out[0], 0, 4);
  const EventId last = rig.send({0}, out[1], 0, 4);
  for (uint32_t helper : {0u, 1u}) {
    rig.recv({helper + 1}, out[helper], 0, 4);
    rig.send({helper + 1}, back[helper], 0, 1000);
  }
  const EventId first_sum = rig.recv({0}, back[0], 0, 1000), second_sum = rig.recv({0}, back[1], 0, 1000);
  const Trace trace = rig.trace();
  const Flows flows = flows_in(trace);
  EXPECT_EQ(flows.flows.size(), 1u);
  std::vector<std::pair<EventId, EventId>> joins;
  for (const Join& join : flows.joins)
    joins.emplace_back(join.from, join.to);
  EXPECT_THAT(joins, testing::ElementsAre(std::pair(last, first_sum), std::pair(first_sum, second_sum)));
}

TEST(Flows, ATraceThatContradictsItselfHasFlowsAllTheSame) {
  Rig rig;
  const uint32_t one = rig.channel(), two = rig.channel();
  rig.recv({0}, one, 0, 4);
  rig.send({0}, two, 0, 4);
  rig.recv({1}, two, 0, 4);
  rig.send({1}, one, 0, 4);
  const Trace trace = rig.trace();
  const Flows flows = flows_in(trace);
  ASSERT_EQ(flows.flows.size(), 1u);
  EXPECT_EQ(flows.flows[0].reason, Reason::kContradiction);
  EXPECT_EQ(flows.flows[0].events, 4u);
  EXPECT_FALSE(DependenceGraph(trace, match_messages(trace)).lamport_clocks());
}

TEST(Flows, ARequestInManyPiecesGoesOnWithItsLast) {
  Rig rig;
  const uint32_t channel = rig.channel();
  const EventId a = rig.start({0}), b = rig.start({1});
  rig.send({0}, channel, 0, 10);
  rig.send({1}, channel, 10, 10);
  const EventId both = rig.recv({2}, channel, 0, 20), after = rig.other({2});
  const Trace trace = rig.trace();
  const Flows flows = flows_in(trace);
  EXPECT_EQ(flows.of[both], flows.of[b]) << "bundled: the last of the messages";
  EXPECT_EQ(flows.of[after], flows.of[b]);
  EXPECT_NE(flows.of[both], flows.of[a]);
}

TEST(Dpm, FollowsOnlyTheNextSend) {
  Rig rig;
  const uint32_t in = rig.channel(), one = rig.channel(), two = rig.channel();
  rig.start({0});
  rig.send({0}, in, 0, 4);
  const EventId got = rig.recv({1}, in, 0, 4), first = rig.send({1}, one, 0, 4),
                second = rig.send({1}, two, 0, 4);
  const EventId first_got = rig.recv({2}, one, 0, 4), second_got = rig.recv({3}, two, 0, 4);
  const Trace trace = rig.trace();
  const Flows dpm = build_flows_as_dpm(trace, match_messages(trace)), ours = flows_in(trace);
  EXPECT_EQ(dpm.of[first_got], dpm.of[got]);
  EXPECT_EQ(dpm.flows[dpm.of[second]].root, second) << "no work of one request at two places";
  EXPECT_EQ(dpm.of[second_got], dpm.of[second]);
  EXPECT_EQ(ours.of[first], ours.of[second]);
}

/// Figure 4.2: two requests at one server; the chop of one has events of the other.
TEST(DependenceGraph, AChopHasEventsOfOtherRequests) {
  Rig rig;
  const At server{0}, one{1}, two{2};
  const uint32_t connect_one = rig.channel(), connect_two = rig.channel(), url = rig.channel(),
                 reply = rig.channel();
  const EventId c1 = rig.send(one, connect_one, 0, 1), u1 = rig.send(one, url, 0, 1);
  const EventId c2 = rig.send(two, connect_two, 0, 1);
  const EventId accept1 = rig.recv(server, connect_one, 0, 1), accept2 = rig.recv(server, connect_two, 0, 1);
  const EventId read1 = rig.recv(server, url, 0, 1), answer1 = rig.send(server, reply, 0, 1),
                shown = rig.recv(one, reply, 0, 1);
  const Trace trace = rig.trace();
  const Matching matching = match_messages(trace);
  const DependenceGraph graph(trace, matching);
  EXPECT_THAT(graph.chop(c1, shown),
              testing::UnorderedElementsAre(c1, u1, accept1, accept2, read1, answer1, shown));
  EXPECT_TRUE(graph.happened_before(accept1, accept2));
  EXPECT_FALSE(graph.happened_before(c2, accept1));
  EXPECT_THAT(graph.chop(shown, c1), testing::IsEmpty());
  EXPECT_EQ(graph.in_degree(read1), 2u);
  EXPECT_EQ(graph.in_degree(c1), 0u);
  const auto clocks = graph.lamport_clocks();
  ASSERT_TRUE(clocks);
  EXPECT_EQ((*clocks)[c1], 1u);
  EXPECT_EQ((*clocks)[c2], 1u);
  EXPECT_GT((*clocks)[shown], (*clocks)[answer1]);
  EXPECT_EQ((*clocks)[accept2], (*clocks)[accept1] + 1);
}

}  // namespace
}  // namespace kintsugi::flow
