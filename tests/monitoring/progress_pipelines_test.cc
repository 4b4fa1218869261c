// Trees of partial sums with a node that is stuck, at each of its positions.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/proto/verdicts.h"
#include "tests/monitoring/report_rig.h"

namespace kintsugi::progress {
namespace {

using proto::Verdict;
using testing::SizeIs;

/// Pipelines of twelve servers; node 0 is the root.
struct Pipeline : ReportRig {
  std::vector<RigTask> own;

  /// `parent[i]` < i; whoever is `stuck` reads for ever. `trace` tells several trees apart.
  void add(const std::vector<int>& parent, int stuck, uint64_t trace) {
    const RigTask repair = task(metaserver(), "repair_manager.repair", 0, trace);
    std::vector<RigTask> node(parent.size());
    std::vector<std::vector<RigTask>> child(parent.size());
    own.assign(parent.size(), {});
    for (size_t i = 0; i < parent.size(); i++) {
      const int number = static_cast<int>(i) + 1;
      uint64_t caller;
      if (i == 0) {
        caller = call(repair, proto::WAIT_CALL, number);
      } else {
        child[parent[i]].push_back(
            task(server(parent[i] + 1), "repair_tree.child_sum", node[parent[i]].span, trace));
        const bool waits_down =
            is_above(parent, parent[i], stuck) && is_above(parent, static_cast<int>(i), stuck);
        caller = waits_down ? call(child[parent[i]].back(), proto::WAIT_RECEIVE, number)
                            : child[parent[i]].back().span;
      }
      node[i] = task(server(number), "chunkserver.partial_sum", caller, trace);
      own[i] = task(server(number), "chunkserver.partial_sum_own", node[i].span, trace);
    }
    for (size_t i = 0; i < parent.size(); i++) {
      const bool above = is_above(parent, static_cast<int>(i), stuck);
      if (static_cast<int>(i) == stuck) {
        wait(node[i], proto::WAIT_SIBLING, own[i].span);
        disk(own[i], "sdb");
        for (const RigTask& sum : child[i])
          wait(sum, proto::WAIT_SIBLING, own[i].span);  // ran ahead by the window
      } else if (above) {                               // waits for what comes from below
        const RigTask& down = child[i][index_of(parent, static_cast<int>(i), stuck)];
        wait(node[i], proto::WAIT_SIBLING, down.span);
        wait(own[i], proto::WAIT_SIBLING, down.span);
        for (const RigTask& sum : child[i])
          if (sum.span != down.span) wait(sum, proto::WAIT_SIBLING, down.span);
      } else {  // ran ahead, and nobody takes its sum
        wait(node[i], proto::WAIT_UPSTREAM, live(node[i]).parent());
        wait(own[i], proto::WAIT_SIBLING, node[i].span);
        for (const RigTask& sum : child[i])
          wait(sum, proto::WAIT_SIBLING, node[i].span);
      }
    }
  }

 private:
  static bool is_above(const std::vector<int>& parent, int node, int of) {
    for (; of > node; of = parent[of])
      if (parent[of] == node) return true;
    return of == node;
  }
  /// Which child of `node` leads to `stuck`.
  static size_t index_of(const std::vector<int>& parent, int node, int stuck) {
    size_t index = 0;
    for (int i = node + 1; i < static_cast<int>(parent.size()); i++) {
      if (parent[i] != node) continue;
      if (is_above(parent, i, stuck)) return index;
      index++;
    }
    return 0;
  }
};

std::vector<int> chain_of(int nodes) {
  std::vector<int> parent{-1};
  for (int i = 1; i < nodes; i++)
    parent.push_back(i - 1);
  return parent;
}

std::vector<int> binomial_of(int nodes) {
  std::vector<int> parent{-1};
  for (int i = 1; i < nodes; i++)
    parent.push_back(i & (i - 1));
  return parent;
}

TEST(WaitGraph, AStuckNodeIsNamedAtEachPositionOfAChainOfTwelve) {
  for (int stuck = 0; stuck < 12; stuck++) {
    Pipeline pipeline;
    pipeline.add(chain_of(12), stuck, 77);
    const auto verdicts = pipeline.diagnose();
    ASSERT_THAT(verdicts, SizeIs(1)) << stuck;
    EXPECT_EQ(verdicts[0].server(), "server " + std::to_string(stuck + 1));
    EXPECT_EQ(verdicts[0].region(), "chunkserver.partial_sum_own");
    EXPECT_EQ(verdicts[0].waiters(), 1 + 12 + 11 + 11u) << stuck;  // everybody but the one
  }
}

TEST(WaitGraph, AStuckNodeIsNamedAtEachPositionOfABinomialTree) {
  for (int stuck = 0; stuck < 12; stuck++) {
    Pipeline pipeline;
    pipeline.add(binomial_of(12), stuck, 77);
    const auto verdicts = pipeline.diagnose();
    ASSERT_THAT(verdicts, SizeIs(1)) << stuck;
    EXPECT_EQ(verdicts[0].server(), "server " + std::to_string(stuck + 1));
  }
}

TEST(WaitGraph, AStuckNodeIsNamedAtEachPositionOfSeveralTreesAtOnce) {
  for (int stuck = 0; stuck < 12; stuck++) {
    Pipeline pipeline;
    pipeline.add(chain_of(12), stuck, 77);
    pipeline.add(binomial_of(12), stuck, 78);
    pipeline.add(chain_of(12), stuck, 79);
    const auto verdicts = pipeline.diagnose();
    ASSERT_THAT(verdicts, SizeIs(1)) << stuck;
    EXPECT_EQ(verdicts[0].server(), "server " + std::to_string(stuck + 1));
    EXPECT_EQ(verdicts[0].operations_size(), 3);
  }
}

TEST(WaitGraph, SeveralTreesAtOnceThatHangAtOneServerGiveOneVerdict) {
  Pipeline pipeline;
  pipeline.add(chain_of(12), 6, 77);
  pipeline.add(binomial_of(12), 6, 78);
  pipeline.add(chain_of(9), 6, 79);
  const auto verdicts = pipeline.diagnose();
  ASSERT_THAT(verdicts, SizeIs(1));
  EXPECT_EQ(verdicts[0].server(), "server 7");
  EXPECT_EQ(verdicts[0].operations_size(), 3);
}

}  // namespace
}  // namespace kintsugi::progress
