// Why a flow is the odd one.
#include <numeric>
#include <set>

#include "common/base/draws.h"
#include "tests/tracing/rig.h"
#include "tracing/cause/coverage.h"
#include "tracing/cause/difference.h"
#include "tracing/cause/interval.h"
#include "tracing/cause/last_entry.h"

namespace kintsugi::cause {
namespace {

using anomaly::CallPaths;
using anomaly::PathId;
using anomaly::PathTotals;
using flow::Rig;

/// Flows from call paths as "main>A>B", seen in this order.
class Paths {
 public:
  CallPaths paths;

  PathId of(const std::string& text) {
    PathId at = paths.binary(paths.name("server"));
    for (size_t begin = 0; begin <= text.size();) {
      const size_t end = std::min(text.find('>', begin), text.size());
      at = paths.call(at, paths.name(text.substr(begin, end - begin)), 0);
      begin = end + 1;
    }
    return at;
  }
  PathTotals flow(const std::vector<std::string>& texts) {
    PathTotals totals;
    for (const std::string& text : texts)
      totals.push_back({.path = of(text), .self_ns = 1, .first = static_cast<int64_t>(100 + totals.size())});
    std::sort(totals.begin(), totals.end(), [](const auto& a, const auto& b) { return a.path < b.path; });
    return totals;
  }
  /// "main>A" or, merged, "main>D>(C,E)"; "-" before what only normal flows have.
  std::vector<std::string> texts(const CoverageAnalysis& analysis) const {
    std::vector<std::string> texts;
    for (const CoverageDifference& difference : analysis.differences) {
      std::string text;
      for (PathId at = difference.caller; paths.depth(at) > 0; at = paths.parent(at))
        text = paths.last_name(at) + ">" + text;
      std::vector<std::string> calls;
      for (PathId call : difference.calls)
        calls.push_back(paths.last_name(call));
      std::sort(calls.begin(), calls.end());
      text += calls.size() == 1 ? calls[0] : fmt::format("({})", fmt::join(calls, ","));
      texts.push_back((difference.side == Side::kOnlyNormal ? "-" : "") + text);
    }
    return texts;
  }
};

TEST(Coverage, Figures54And55) {
  Paths p;
  const std::vector<PathTotals> anomalous{p.flow({"main>A>B", "main>A>C", "main>D>E", "main>D>C"})},
      normal{p.flow({"main>D"})};
  const CoverageAnalysis analysis = analyse_coverage(anomalous, normal, p.paths);
  EXPECT_EQ(analysis.only_anomalous, 5u);
  EXPECT_EQ(analysis.only_normal, 0u);
  EXPECT_EQ(analysis.pruned, 3u);
  EXPECT_THAT(p.texts(analysis), testing::ElementsAre("main>A", "main>D>(C,E)"));
}

TEST(Coverage, WhatOnlyNormalFlowsDoIsToldBesideIt) {
  Paths p;
  const std::vector<PathTotals> anomalous{p.flow({"main>D"})},
      normal{p.flow({"main>D>check>lookup", "main>D"})};
  EXPECT_THAT(p.texts(analyse_coverage(anomalous, normal, p.paths)), testing::ElementsAre("-main>D>check"));
}

TEST(Coverage, InAllOfTheOneAndInNoneOfTheOther) {
  Paths p;
  const std::vector<PathTotals> anomalous{p.flow({"main>A", "main>X"}), p.flow({"main>A", "main>Y"})};
  const std::vector<PathTotals> normal{p.flow({"main>N", "main>M"}), p.flow({"main>N", "main>A>deep"})};
  EXPECT_THAT(p.texts(analyse_coverage(anomalous, normal, p.paths)), testing::ElementsAre("-main>N"))
      << "A is in one normal flow, X, Y and M are not in all";
  EXPECT_THAT(p.texts(analyse_coverage({anomalous.data(), 1}, {normal.data(), 1}, p.paths)),
              testing::ElementsAre("main>(A,X)", "-main>(M,N)"));
}

TEST(Coverage, RanksByTimeByLengthOrByBoth) {
  Paths p;
  const std::vector<PathTotals> anomalous{
      p.flow({"main>a>b>deep-first", "main>c>late", "main>e>later", "main>short-last"})};
  const std::vector<PathTotals> normal{p.flow({"main>a>b", "main>c", "main>e"})};
  const auto in = [&](Order order) { return p.texts(analyse_coverage(anomalous, normal, p.paths, order)); };
  EXPECT_THAT(in(Order::kTime),
              testing::ElementsAre("main>a>b>deep-first", "main>c>late", "main>e>later", "main>short-last"));
  EXPECT_THAT(in(Order::kLengthThenTime),
              testing::ElementsAre("main>short-last", "main>c>late", "main>e>later", "main>a>b>deep-first"));
  EXPECT_THAT(in(Order::kLength).front(), "main>short-last");
  EXPECT_THAT(in(Order::kLength).back(), "main>a>b>deep-first");
}

TEST(Coverage, NothingToCompareWithIsNoDifference) {
  Paths p;
  const std::vector<PathTotals> one{p.flow({"main>A"})};
  EXPECT_TRUE(analyse_coverage(one, {}, p.paths).differences.empty());
  EXPECT_TRUE(analyse_coverage({}, one, p.paths).differences.empty());
  EXPECT_TRUE(analyse_coverage(one, one, p.paths).differences.empty());
}

/// The definitions of section 5.3.4 on sets of strings, beside ours on the forest.
TEST(Coverage, AgreesWithTheSetsOfTheText) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    Draws draws(seed);
    Paths p;
    std::vector<PathTotals> sides[2];
    std::vector<std::set<std::string>> sets[2];
    for (int side : {0, 1})
      for (uint64_t flow = 1 + draws.below(3); flow > 0; --flow) {
        std::set<std::string> closed;
        std::vector<std::string> texts;
        for (int i = 0; i < 6; ++i) {
          std::string text = "main";
          closed.insert(text);
          for (uint64_t depth = draws.below(4); depth > 0; --depth)
            closed.insert(text += ">" + std::string(1, static_cast<char>('a' + draws.below(2))));
          texts.push_back(text);
        }
        sides[side].push_back(p.flow({closed.begin(), closed.end()}));
        sets[side].push_back(closed);
      }
    const auto difference = [](const auto& all, const auto& none) {
      std::set<std::string> result;
      for (const std::string& path : all[0])
        if (std::all_of(all.begin(), all.end(), [&](const auto& set) { return set.contains(path); }) &&
            std::none_of(none.begin(), none.end(), [&](const auto& set) { return set.contains(path); }))
          result.insert(path);
      return result;
    };
    const auto odd = difference(sets[0], sets[1]), usual = difference(sets[1], sets[0]);
    std::map<std::string, std::set<std::string>> merged;
    size_t pruned = 0;
    for (const auto* delta : {&odd, &usual})
      for (const std::string& path : *delta) {
        const std::string parent = path.substr(0, path.rfind('>'));
        bool effect = false;
        for (size_t at = path.find('>'); at != std::string::npos; at = path.find('>', at + 1))
          effect |= delta->contains(path.substr(0, at));
        if (effect) continue;
        ++pruned;
        merged[(delta == &usual ? "-" : "") + parent].insert(path.substr(path.rfind('>') + 1));
      }
    std::vector<std::string> expected;
    for (const auto& [parent, leaves] : merged)
      expected.push_back(
          parent + ">" +
          (leaves.size() == 1 ? *leaves.begin() : fmt::format("({})", fmt::join(leaves, ","))));
    const CoverageAnalysis analysis = analyse_coverage(sides[0], sides[1], p.paths);
    EXPECT_EQ(analysis.only_anomalous, odd.size()) << seed;
    EXPECT_EQ(analysis.only_normal, usual.size()) << seed;
    EXPECT_EQ(analysis.pruned, pruned) << seed;
    EXPECT_THAT(p.texts(analysis), testing::UnorderedElementsAreArray(expected)) << seed;
  }
}

TEST(Difference, TheLargestComponentIsFirstWithBothShares) {
  using anomaly::Measure;
  const anomaly::Profile odd{{Measure::kTime, 1, 0.08}, {Measure::kTime, 3, 0.92}},
      usual{{Measure::kTime, 1, 0.1}, {Measure::kTime, 2, 0.9}};
  const std::vector<Difference> all = differences(odd, usual, 2);
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].path, 3u);
  EXPECT_DOUBLE_EQ(all[0].delta(), 0.92);
  EXPECT_EQ(all[0].normal, 0);
  EXPECT_EQ(all[1].path, 2u);
  EXPECT_DOUBLE_EQ(all[1].delta(), -0.9);
  EXPECT_TRUE(differences(odd, odd, 5).front().delta() == 0);
}

TEST(LastEntry, IsTheLastFunctionOfAnyThreadWithItsStack) {
  Rig rig;
  rig.entry({0, 1}, "main", 0);
  rig.entry({0, 2}, "worker", 1);
  rig.entry({0, 2}, "panic", 5);
  rig.entry({0, 2}, "_exit", 9);
  rig.entry({0, 1}, "log", 3);
  rig.exit({0, 1}, "log", 4);
  rig.entry({1, 1}, "main", 0);
  rig.entry({1, 1}, "check", 3);
  rig.exit({1, 1}, "check", 4);
  const flow::Trace trace = rig.trace();
  CallPaths paths;
  const std::vector<LastEntry> last = last_entries(trace, paths);
  ASSERT_EQ(last.size(), 2u);
  EXPECT_EQ(paths.text(last[0].path), "server: worker -> panic -> _exit");
  EXPECT_FALSE(last[0].returned);
  EXPECT_EQ(paths.text(last[1].path), "server: main -> check");
  EXPECT_TRUE(last[1].returned);
}

/// A thread that went back to its event loop has nothing to do; one that left a coroutine, and no more, does something else there.
TEST(LastEntry, IsTheFunctionAroundAPlaceThatAThreadHasJustLeft) {
  const auto last_of = [](bool is_called, bool goes_back) {
    Rig rig;
    rig.entry({0, 1}, "accept", 0);
    rig.exit({0, 1}, "accept", 2);
    rig.entry({0, 2}, "loop", 1);
    if (is_called) rig.entry({0, 2}, "resume", 3);
    rig.entry({0, 2}, "(elsewhere)", 4);
    rig.exit({0, 2}, "(elsewhere)", 5);
    if (goes_back) rig.exit({0, 2}, "resume", 6);
    if (goes_back) rig.entry({0, 2}, "epoll", 7);
    const flow::Trace trace = rig.trace();
    CallPaths paths;
    const std::vector<std::string> idle{"(elsewhere)", "loop", "epoll"};
    const LastEntry last = last_entries(trace, paths, idle).front();
    return (last.returned ? "left " : "in ") + paths.text(last.path);
  };
  EXPECT_EQ(last_of(true, false), "in server: loop -> resume");
  EXPECT_EQ(last_of(false, false), "in server: loop");
  EXPECT_EQ(last_of(true, true), "left server: accept");
}

/// Twelve servers do the same; from 60 of 96 s on, one of them hangs in write.
Rig twelve_servers(uint32_t odd) {
  Rig rig;
  for (uint32_t server = 0; server < 12; ++server) {
    const flow::At at{rig.process("server-" + std::to_string(server))};
    rig.entry(at, "main", 0);
    for (int64_t second = 0; second < 96; ++second) {
      const bool hangs = server == odd && second >= 60;
      rig.entry(at, hangs ? "write" : "work", second * 1000);
      rig.exit(at, hangs ? "write" : "work", second * 1000 + 900 + server);
    }
    rig.exit(at, "main", 96'000);
  }
  return rig;
}

TEST(Interval, TheFirstMomentAtWhichItWasUnlikeTheOthers) {
  const flow::Trace trace = twelve_servers(4).trace();
  CallPaths paths;
  std::vector<uint32_t> all(12);
  std::iota(all.begin(), all.end(), 0);
  const auto found = anomalous_interval(trace, anomaly::groups_by_process(trace), all, 4, paths);
  ASSERT_TRUE(found && *found);
  EXPECT_EQ((*found)->fragment, 30u) << "48 fragments of 2 s";
  EXPECT_EQ((*found)->begin_ns, 60'000);
  const auto nothing = anomalous_interval(trace, anomaly::groups_by_process(trace), all, 5, paths);
  ASSERT_TRUE(nothing);
  EXPECT_FALSE(*nothing);
}

}  // namespace
}  // namespace kintsugi::cause
