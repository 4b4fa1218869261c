// The sentence of a verdict for an operator: who, what it means for users, what to do.
#include "common/proto/verdict_advice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/proto/room_verdicts.h"
#include "common/proto/verdicts.h"

namespace kintsugi::proto {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

Verdict of_kind(Verdict::Kind kind, Verdict::Confidence confidence = Verdict::CERTAIN) {
  Verdict verdict;
  verdict.set_kind(kind);
  verdict.set_server("chunkserver-4");
  verdict.set_process_kind("chunkserver");
  verdict.set_confidence(confidence);
  return verdict;
}

TEST(VerdictAdvice, SaysWhoThenWhatItMeansThenWhatToDo) {
  Verdict verdict = of_kind(Verdict::SILENT);
  verdict.set_waiters(10);
  verdict.add_operations("client.put 1");
  verdict.add_operations("client.get 2");
  EXPECT_EQ(
      advise(verdict),
      "chunkserver-4 does not answer; 2 operations wait. Check that its process and its machine run, and "
      "start it again.");
  verdict.mutable_operations()->RemoveLast();
  EXPECT_THAT(advise(verdict), HasSubstr("; 1 operation waits. "));
  verdict.clear_operations();
  EXPECT_THAT(advise(verdict), HasSubstr("; others wait for it. "));
  verdict.clear_waiters();
  EXPECT_THAT(advise(verdict), HasSubstr("; no operation waits for it now. "));
  for (int i = 0; i < 16; ++i)
    verdict.add_operations("client.put");
  verdict.set_waiters(99);
  EXPECT_THAT(advise(verdict), HasSubstr("; at least 16 operations wait. ")) << "no more are listed";
}

TEST(VerdictAdvice, ASilentMetaserverStopsEverything) {
  Verdict verdict = of_kind(Verdict::SILENT);
  verdict.set_server("metaserver");
  verdict.set_process_kind("metaserver");
  EXPECT_EQ(
      advise(verdict),
      "metaserver does not answer; nothing can be stored or found until it is back. Check that its process "
      "and its machine run, and start it again.");
}

TEST(VerdictAdvice, WithoutRoomWritesFailThoughNothingIsStuck) {
  Room servers, metadata;
  EXPECT_TRUE(no_room(servers, metadata).empty());
  servers.set_total_bytes(uint64_t{3} << 30);
  servers.set_needed_bytes(64 << 20);
  servers.set_servers(9);
  servers.set_full_servers(9);
  servers.set_full(true);
  metadata.set_total_bytes(uint64_t{1} << 30);
  metadata.set_free_bytes(12 << 20);
  metadata.set_needed_bytes(128 << 20);
  metadata.set_needed_inodes(256);
  metadata.set_full(true);
  std::vector<Verdict> both = no_room(servers, metadata);
  ASSERT_EQ(both.size(), 2u);
  EXPECT_EQ(advise(both[0]),
            "cluster has no room: 0 B of 3.0 GiB free on all 9 servers; writes fail, what is there is read "
            "and can be "
            "removed. Remove files, or add disks or servers (`kintsugi df`).");
  EXPECT_THAT(describe(both[0]),
              StartsWith("cluster: no room: 0 B of 3.0 GiB free on all 9 servers; writes fail"));
  EXPECT_EQ(kind_name(both[0].kind()), "full");
  EXPECT_THAT(advise(both[1]), StartsWith("metaserver has no room on its own disk: 12.0 MiB of 1.0 GiB free, "
                                          "and it needs 128.0 MiB; nothing new is stored"));
  metadata.set_free_bytes(512 << 20);
  metadata.set_free_inodes(3);
  EXPECT_THAT(advise(no_room({}, metadata).at(0)), HasSubstr("3 inodes free, and it needs 256"));
  servers.set_free_bytes(10 << 20);
  servers.set_full_servers(7);
  EXPECT_THAT(advise(no_room(servers, {}).at(0)),
              HasSubstr("10.0 MiB of 3.0 GiB free, and 7 of 9 servers have less than 64.0 MiB"));
}

TEST(VerdictAdvice, WhatIsMaskedOrAvoidedHoldsNobodyUp) {
  Verdict verdict = of_kind(Verdict::DEVICE);
  verdict.set_device("/disks/2");
  verdict.set_factor(4.2);
  verdict.set_waiters(3);
  verdict.set_gone_around(true);
  EXPECT_THAT(advise(verdict),
              StartsWith("/disks/2 of chunkserver-4 is 4.2 times slower than it should be; reads, "
                         "placements and repairs avoid it. "));
  verdict.set_masked(true);
  EXPECT_THAT(advise(verdict), HasSubstr("; operations continue without it. "));
  Verdict client = of_kind(Verdict::CLIENT);
  client.set_server("client 10.0.0.1");
  client.set_masked(true);
  EXPECT_THAT(advise(client), HasSubstr("; only its own operations wait. "));
  EXPECT_THAT(advise(client), HasSubstr("does not answer any more"))
      << "one that does not report is in no region";
  client.set_region("client.read");
  EXPECT_THAT(advise(client), HasSubstr("does not read or write"));
}

TEST(VerdictAdvice, EveryKindNamesTheServerAndEndsWithSomethingToDo) {
  for (int kind = Verdict::Kind_MIN; kind <= Verdict::Kind_MAX; ++kind) {
    const std::string advice = advise(of_kind(static_cast<Verdict::Kind>(kind)));
    EXPECT_THAT(advice, HasSubstr("chunkserver-4")) << kind;
    const char* effect = kind == Verdict::FULL       ? "; writes fail"
                         : kind == Verdict::RUNS_OUT ? "; nothing fails yet; "
                                                     : "; no operation waits for it now. ";
    EXPECT_THAT(advice, HasSubstr(effect)) << kind;
    EXPECT_THAT(advice, EndsWith(".")) << kind;
  }
}

TEST(VerdictAdvice, DoubtIsSaidAndBytesThatAreNotPrintableAreQuoted) {
  Verdict verdict = of_kind(Verdict::LINK, Verdict::UNSURE);
  verdict.set_peer("x\x1b[31m\n");
  EXPECT_THAT(advise(verdict), StartsWith("Possibly: chunkserver-4 and x?[31m? do not hear each other; "));
  EXPECT_THAT(advise(of_kind(Verdict::LINK, Verdict::LIKELY)), Not(HasSubstr("Possibly")));
}

}  // namespace
}  // namespace kintsugi::proto
