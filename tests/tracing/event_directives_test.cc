// Directives say whose work a queue hands over, those of a file as well as those that are shipped.
#include "tests/tracing/records_rig.h"

namespace kintsugi::tracing {
namespace {

using rpc::Method;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Not;

/// Two requests put work into a queue of their own making, and a worker takes it in the other order.
TracedProcess with_a_queue() {
  TracedProcess server(1);
  server.serve([&] {
    server.request(0, 1, Method::kReadChunk);
    server.call("Queue::put", {7, 0x51});
    server.request(1, 2, Method::kWriteChunk);
    server.call("Queue::put", {7, 0x52});
  });
  server.thread = 1;
  server.named.trace.threads.resize(2);
  for (const uint64_t taken : {0x52, 0x51}) {
    server.enter("Queue::take");
    server.leave("Queue::take", taken);
    server.call(taken == 0x51 ? "work of the read" : "work of the write");
  }
  return server;
}

SeparationSettings settings_of(std::string_view text) {
  auto directives = flow::parse_directives(text);
  EXPECT_TRUE(directives) << directives.error();
  return {.directives = std::move(*directives)};
}

constexpr std::string_view kQueue =
    "begin Queue::put:entry arg2 as job\n"
    "end Queue::take:exit ret as job\n";

TEST(EventsOfTraces, DirectivesOfAFileSayWhoseWorkAQueueHandsOver) {
  const Separated all = separated({with_a_queue().named}, settings_of(kQueue));
  const auto reads = functions_of(all, "ReadChunk"), writes = functions_of(all, "WriteChunk");
  ASSERT_EQ(reads.size(), 1);
  ASSERT_EQ(writes.size(), 1);
  EXPECT_THAT(reads[0], Contains("work of the read"));
  EXPECT_THAT(writes[0], Contains("work of the write"));
  EXPECT_THAT(reads[0], Not(Contains("work of the write")));
  EXPECT_TRUE(all.remarks.empty()) << all.remarks[0];
  const Separated without = separated({with_a_queue().named});
  EXPECT_THAT(functions_of(without, "ReadChunk").at(0), Not(Contains("work of the read")));
}

TEST(EventsOfTraces, ByTheRulesAloneNothingIsHandedOver) {
  const Separated by_rules = separated({two_requests().named}, {.rules_only = true});
  const auto reads = functions_of(by_rules, "ReadChunk");
  ASSERT_EQ(reads.size(), 1);
  EXPECT_THAT(reads[0], Not(Contains("read begins")));
  SeparationSettings with_queue = settings_of(kQueue);
  with_queue.rules_only = true;
  EXPECT_THAT(functions_of(separated({with_a_queue().named}, std::move(with_queue)), "ReadChunk").at(0),
              Not(Contains("work of the read")));
}

TEST(EventsOfTraces, DirectivesThatCannotBeFollowedAreToldWithTheirLines) {
  const Separated all = separated({with_a_queue().named}, settings_of("# of nobody\n"
                                                                      "begin Queue::putt:entry arg2 as job\n"
                                                                      "end take:exit ret as job\n"
                                                                      "begin Queue::put:entry arg4 as other\n"
                                                                      "idle entirely::other\n"));
  EXPECT_THAT(
      all.remarks,
      ElementsAre(
          "line 2: no recorded program has a function Queue::putt with room for tracing (did you mean "
          "Queue::put?)",
          "line 3: no recorded program has a function take with room for tracing (did you mean Queue::take?)",
          "line 4: the arg4 of Queue::put was not recorded: kintsugi trace attach --directives has it "
          "recorded",
          "line 5: no recorded program has a function entirely::other with room for tracing"));
}

TEST(EventsOfTraces, WhatTheShippedDirectivesNeedIsAlwaysRecorded) {
  const flow::Directives shipped = shipped_directives();
  EXPECT_GE(shipped.directives.size(), 3);
  EXPECT_GE(shipped.idle.size(), 2);
  for (const flow::Directive& each : shipped.directives) {
    // The mangled name of "a::b()" is _ZN1a1bEv.
    std::string mangled = "_ZN";
    std::string_view rest = each.function;
    for (size_t end = 0; end != std::string_view::npos; rest.remove_prefix(std::min(rest.size(), end + 2))) {
      end = rest.find("::");
      const std::string part(rest.substr(0, end));
      mangled += std::to_string(part.size()) + part;
      if (end == std::string_view::npos) break;
    }
    EXPECT_NE(recorded_arguments(mangled + "Ev") & 1 << (each.argument - 1), 0) << each.function;
  }
}

}  // namespace
}  // namespace kintsugi::tracing
