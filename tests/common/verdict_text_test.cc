// Verdicts as people and programs read them: `kintsugi diagnose`, its --json, the log of alarms.
#include <functional>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "common/proto/measured_rates.h"
#include "common/proto/verdict_advice.h"
#include "common/proto/verdicts.h"

namespace kintsugi::proto {
namespace {

using Json = nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr uint64_t kSecond = 1'000'000'000;

/// The one of docs/diagnosis.md.
Verdict stuck() {
  Verdict verdict;
  verdict.set_kind(Verdict::STUCK);
  verdict.set_server("server 4");
  verdict.set_server_id(0x1f);
  verdict.set_process(0xabc);
  verdict.set_process_kind("chunkserver");
  verdict.set_region("chunkserver.partial_sum > disk.read");
  verdict.set_file("chunkserver/store/chunk_reader.cc");
  verdict.set_line(88);
  verdict.set_function("ChunkReader::read");
  verdict.set_waiters(10);
  for (const char* server : {"server 1", "server 2", "server 9", "server 4"})
    verdict.add_servers_waiting(server);
  verdict.add_operations("repair 77");
  verdict.set_since_ns(41 * kSecond);
  verdict.set_confidence(Verdict::CERTAIN);
  verdict.set_probability(0.996);
  verdict.add_why("in 998 earlier cases this step may have taken so long 3 times");
  ChainLink& link = *verdict.add_chain();
  link.set_process("server 9");
  link.set_role("chunkserver.partial_sum");
  link.set_region("chunkserver.partial_sum > child_sum");
  link.set_age_ns(42 * kSecond);
  link.set_wait(WAIT_RECEIVE);
  link.set_waits_for("server 4");
  link.set_file("partial_sum/child_sum.cc");
  link.set_line(97);
  verdict.set_id(7);
  verdict.set_raised_wall_ns(1'700'000'000 * static_cast<int64_t>(kSecond));
  return verdict;
}

Verdict of_kind(Verdict::Kind kind, const std::string& server) {
  Verdict verdict;
  verdict.set_kind(kind);
  verdict.set_server(server);
  verdict.set_confidence(Verdict::LIKELY);
  return verdict;
}

TEST(VerdictText, AHangSaysWhoWhereSinceWhenAndWhoWaits) {
  EXPECT_EQ(
      describe(stuck()),
      "server 4: chunkserver.partial_sum > disk.read, no progress for 41 s, 10 tasks on 4 servers wait for "
      "it, repair 77; "
      "chunk_reader.cc:88; certain");
  EXPECT_EQ(describe(stuck().chain(0)),
            "server 9: chunkserver.partial_sum > child_sum, 42 s, receive (server 4) [child_sum.cc:97]");
}

TEST(VerdictText, EachKindHasWordsOfItsOwn) {
  const auto line = [](Verdict::Kind kind, const std::function<void(Verdict&)>& more = {}) {
    Verdict verdict = of_kind(kind, "server 4");
    if (more) more(verdict);
    return describe(verdict);
  };
  EXPECT_EQ(line(Verdict::SILENT), "server 4: does not report and answers nobody; likely");
  EXPECT_EQ(line(Verdict::RUNNING, [](Verdict& v) { v.set_region("encode"); }),
            "server 4: runs on without end in encode; likely");
  EXPECT_EQ(line(Verdict::NOT_SERVED), "server 4: does not serve a request; likely");
  EXPECT_EQ(line(Verdict::DEVICE, [](Verdict& v) { v.set_device("sdb"); }), "server 4: disk (sdb); likely");
  EXPECT_EQ(line(Verdict::DEVICE,
                 [](Verdict& v) {
                   v.set_device("sdb");
                   v.set_factor(4.2);
                   v.set_since_ns(30 * kSecond);
                 }),
            "server 4: disk (sdb) is 4.2 times slower, for 30 s; likely");
  EXPECT_EQ(line(Verdict::LINK, [](Verdict& v) { v.set_peer("server 5"); }),
            "server 4 and server 5: do not hear each other; likely");
  EXPECT_EQ(line(Verdict::SLOW,
                 [](Verdict& v) {
                   v.set_region("answers to others");
                   v.set_factor(3.25);
                   v.set_since_ns(30 * kSecond);
                 }),
            "server 4: answers to others is 3.2 times slower, for 30 s; likely");
  EXPECT_EQ(line(Verdict::RESOURCE, [](Verdict& v) { v.set_factor(2); }),
            "server 4: gets too little CPU or memory, and computes 2.0 times slower; likely");
}

TEST(VerdictText, AForecastSaysWhatEndsAndWhen) {
  Verdict verdict = of_kind(Verdict::RUNS_OUT, "chunkserver-3");
  verdict.set_region("num_fds");
  verdict.mutable_forecast()->set_now(871);
  verdict.mutable_forecast()->set_limit(1024);
  verdict.mutable_forecast()->set_rate_per_s(0.18);
  verdict.mutable_forecast()->set_seconds_left(850);
  verdict.set_since_ns(30 * kSecond);
  EXPECT_EQ(describe(verdict), "chunkserver-3: runs out of num_fds in 14 min, for 30 s; likely");
  EXPECT_EQ(advise(verdict),
            "chunkserver-3 will use up its num_fds (871 of 1024 now); nothing fails yet; it will in 14 min. "
            "Before then, raise that limit or restart chunkserver-3 at a quiet time.");
  const Json json = Json::parse(to_json(verdict));
  EXPECT_EQ(json["kind"], "runs out");
  EXPECT_EQ(json["forecast"]["limit"], 1024);
  EXPECT_TRUE(json["forecast"]["latest_s"].is_null()) << "perhaps it never ends";
}

TEST(VerdictText, WhoTakesMoreOfSomethingIsNotWhoLacksIt) {
  Verdict verdict = of_kind(Verdict::RESOURCE, "server 4");
  verdict.set_region("memory");
  verdict.set_factor(3.5);
  EXPECT_EQ(describe(verdict), "server 4: takes 3.5 times as much memory as it did; likely");
  verdict.set_region("serve.Stat");
  verdict.clear_factor();
  EXPECT_EQ(describe(verdict), "server 4: gets no CPU time in serve.Stat; likely");
}

TEST(VerdictText, AMachineIsNamedWithThoseThatItMakesSlow) {
  Verdict verdict = of_kind(Verdict::HOST, "machine rack1-a");
  verdict.set_since_ns(30 * kSecond);
  EXPECT_EQ(describe(verdict), "machine rack1-a: is short of CPU time, for 30 s; likely");
  for (const char* server : {"metaserver", "server 1", "server 2", "server 3", "server 4"})
    verdict.add_servers_waiting(server);
  EXPECT_EQ(describe(verdict),
            "machine rack1-a: is short of CPU time, by which metaserver, server 1, server 2 and 2 more are "
            "slow, for 30 s; likely");
}

TEST(VerdictText, DisksOfManyServersAreOfTheirMachine) {
  Verdict verdict = of_kind(Verdict::DEVICE, "machine rack1-a");
  verdict.set_since_ns(4 * kSecond);
  EXPECT_EQ(describe(verdict), "machine rack1-a: the disks of its servers do not answer, for 4.0 s; likely");
}

TEST(VerdictText, WhatIsMaskedOrAloneIsSaidAndOneTaskIsNotTwo) {
  Verdict verdict = stuck();
  verdict.set_masked(true);
  EXPECT_THAT(describe(verdict), HasSubstr("operations continue without it"));
  verdict.set_waiters(1);
  verdict.clear_servers_waiting();
  EXPECT_THAT(describe(verdict), HasSubstr("1 task waits for it"));
  verdict.add_operations("put 5");
  EXPECT_THAT(describe(verdict), HasSubstr("repair 77 and 1 more"));
}

TEST(VerdictText, WhatAReportMayHoldStaysOnOneLineAndLosesNothingInJson) {
  Verdict verdict = stuck();
  verdict.set_region("a\nb\x1b[31m\xff \"quoted\"");
  EXPECT_THAT(describe(verdict), Not(HasSubstr("\n")));
  EXPECT_THAT(describe(verdict), Not(HasSubstr("\x1b")));
  const std::string text = to_json(verdict);
  EXPECT_THAT(text, Not(HasSubstr("\n")));
  EXPECT_THAT(Json::parse(text).at("region").get<std::string>(), HasSubstr("a\nb\x1b[31m"));
}

TEST(VerdictJson, HasEveryFieldByItsName) {
  const Json json = Json::parse(to_json(stuck()));
  const auto rate = measured_rate(stuck().kind(), stuck().confidence());
  const Json expected = {{"id", 7},
                         {"kind", "stuck"},
                         {"server", "server 4"},
                         {"server_id", "31"},
                         {"process", "0000000000000abc"},
                         {"process_kind", "chunkserver"},
                         {"peer", ""},
                         {"device", ""},
                         {"region", "chunkserver.partial_sum > disk.read"},
                         {"file", "chunkserver/store/chunk_reader.cc"},
                         {"line", 88},
                         {"function", "ChunkReader::read"},
                         {"waiters", 10},
                         {"servers_waiting", {"server 1", "server 2", "server 9", "server 4"}},
                         {"operations", {"repair 77"}},
                         {"since_s", 41.0},
                         {"confidence", "certain"},
                         {"probability", 0.996},
                         {"measured_right", rate ? rate->right : 0},
                         {"measured_of", rate ? rate->of : 0},
                         {"why", {"in 998 earlier cases this step may have taken so long 3 times"}},
                         {"masked", false},
                         {"factor", 0.0},
                         {"avoided", false},
                         {"stack", Json::array()},
                         {"slice", Json::array()},
                         {"raised_unix_s", 1.7e9},
                         {"cleared_unix_s", 0.0},
                         {"line_of_text", describe(stuck())},
                         {"chain",
                          {{{"server", "server 9"},
                            {"role", "chunkserver.partial_sum"},
                            {"region", "chunkserver.partial_sum > child_sum"},
                            {"state", ""},
                            {"age_s", 42.0},
                            {"wait", "receive"},
                            {"waits_for", "server 4"},
                            {"file", "partial_sum/child_sum.cc"},
                            {"line", 97},
                            {"function", ""}}}}};
  for (const auto& [name, value] : expected.items()) {
    ASSERT_TRUE(json.contains(name)) << name;
    EXPECT_EQ(json.at(name), value) << name;
  }
  EXPECT_EQ(json.size(), expected.size()) << "a field that nobody told this test of";
}

TEST(VerdictJson, AnAnswerHasVerdictsHistoryAndProcesses) {
  DiagnoseResponse response;
  *response.add_verdicts() = stuck();
  *response.add_history() = of_kind(Verdict::HOST, "machine rack1-a");
  ProcessLine& process = *response.add_processes();
  process.set_kind("chunkserver");
  process.set_name("server 4");
  process.set_silent_ns(kSecond / 2);
  HeldBackMoves& moves = *response.add_held_back();
  moves.set_server_id(7);
  moves.set_server("cs7");
  moves.set_ms_left(39'100);
  EXPECT_EQ(describe(moves), "moves to it are held back for 40 s after failed moves");
  moves.add_from("cs1");
  moves.add_from("cs2");
  EXPECT_EQ(describe(moves), "moves to it from cs1, cs2 are held back for 40 s after failed moves");
  response.set_servers(10);
  response.set_servers_reporting(9);
  const Json json = Json::parse(to_json(response));
  EXPECT_EQ(json.at("verdicts").at(0).at("server"), "server 4");
  EXPECT_EQ(json.at("history").at(0).at("kind"), "host");
  EXPECT_EQ(json.at("processes").at(0).at("silent_s"), 0.5);
  EXPECT_EQ(json.at("servers"), 10);
  EXPECT_EQ(json.at("held_back").at(0),
            (Json{{"server_id", "7"}, {"server", "cs7"}, {"seconds_left", 39.1}, {"from", {"cs1", "cs2"}}}));
  EXPECT_EQ(json.at("servers_reporting"), 9);
  EXPECT_EQ(json.at("reduced"), false);
}

TEST(VerdictNames, EveryKindConfidenceAndWaitHasOneAndOthersAreUnknown) {
  std::set<std::string_view> kinds, waits;
  for (int kind = Verdict::Kind_MIN; kind <= Verdict::Kind_MAX; ++kind)
    kinds.insert(kind_name(static_cast<Verdict::Kind>(kind)));
  EXPECT_EQ(kinds.size(), static_cast<size_t>(Verdict::Kind_ARRAYSIZE));
  EXPECT_FALSE(kinds.contains("unknown"));
  for (int wait = WaitKind_MIN; wait <= WaitKind_MAX; ++wait)
    waits.insert(wait_name(static_cast<WaitKind>(wait)));
  EXPECT_EQ(waits.size(), static_cast<size_t>(WaitKind_ARRAYSIZE));
  EXPECT_EQ(kind_name(static_cast<Verdict::Kind>(99)), "unknown");
  EXPECT_EQ(confidence_name(Verdict::UNSURE), "unsure");
  EXPECT_EQ(confidence_name(Verdict::LIKELY), "likely");
  EXPECT_EQ(confidence_name(Verdict::CERTAIN), "certain");
}

}  // namespace
}  // namespace kintsugi::proto
