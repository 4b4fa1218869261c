// Promises to kernels against a model: sessions that are told things and hear of changes late, in every order.
#include <array>
#include <optional>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <gtest/gtest.h>

#include "common/runtime/task_group.h"
#include "metaserver/sessions/promises.h"
#include "tests/simulation/runtime/sim_node.h"
#include "tests/simulation/runtime/sim_random.h"
#include "tests/simulation/runtime/simulation.h"
#include "tests/test_seeds.h"

namespace kintsugi::metaserver {
namespace {

/// Sessions that are told things, hear of changes late, and all at random; judged by what their kernels may believe.
struct BelieverModel {
  static constexpr size_t kSessions = 4, kInodes = 3;
  struct Belief {
    uint64_t version = 0;
    TimePoint until = TimePoint::min();
  };

  explicit BelieverModel(uint64_t seed)
      : simulation(seed), dice(seed), node(simulation, "metaserver"), sessions(node.runtime()) {
    promises.emplace(node.runtime(), sessions);
    for (uint64_t session = 1; session <= kSessions; ++session) {
      sessions.hold(session, InodeId{kInodes + 1});
      if (session > 1 || dice.coin()) promises->session_is(session, true);
    }
  }

  TimePoint now() { return simulation.now(); }
  void look(uint64_t session, size_t inode) {
    promises->note_promise(session, InodeId{inode + 1});
    beliefs[session - 1][inode] = {versions[inode], now() + kBelieved};
  }
  asio::awaitable<void> change(uint64_t by, size_t inode) {
    ++under_way;
    const uint64_t version = ++versions[inode];
    auto hearers = promises->note_change(InodeId{inode + 1}, by);
    beliefs[by - 1][inode] = {version, now() + kBelieved};
    promises->note_promise(by, InodeId{inode + 1});
    co_await promises->await_heard(std::move(hearers));
    --under_way;
    for (uint64_t session = 1; session <= kSessions; ++session) {
      const Belief& belief = beliefs[session - 1][inode];
      EXPECT_FALSE(session != by && belief.version < version && belief.until > now())
          << "session " << session << " believes version " << belief.version << " of inode " << inode
          << " when change " << version << " is answered";
    }
  }
  /// The session asks what is new; it hears some time later, or the answer is lost.
  asio::awaitable<void> poll(uint64_t session, uint64_t delay_ms, bool lost) {
    ++under_way;
    proto::AwaitRecallsResponse response;
    const bool any = promises->tell(session, told[session - 1], response);
    runtime::TaskGroup sleeping(node.runtime());
    (void)co_await sleeping.sleep_for(std::chrono::milliseconds(delay_ms));
    --under_way;
    if (!any || lost) co_return;
    told[session - 1] = std::max(told[session - 1], response.number());
    for (const auto& changed : response.changed())
      beliefs[session - 1][changed.inode() - 1].until = TimePoint::min();
    promises->session_heard(session, response.number());
  }

  simulation::Simulation simulation;
  simulation::SimRandom dice;
  simulation::SimNode node;
  Sessions sessions;
  std::optional<Promises> promises;
  std::array<uint64_t, kInodes> versions{};
  std::array<std::array<Belief, kInodes>, kSessions> beliefs{};
  std::array<uint64_t, kSessions> told{};
  size_t under_way = 0;
};

TEST(Promises, NobodyBelievesWhatWasBeforeAChangeThatWasAnswered) {
  const TestSeeds seeds(200);
  for (uint64_t seed = seeds.first(); seed < seeds.end() && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(TestSeeds::replay(seed));
    BelieverModel model(seed);
    simulation::SimRandom& dice = model.dice;
    const auto run = [&](asio::awaitable<void> task) {
      asio::co_spawn(model.simulation.executor(), std::move(task), asio::detached);
    };
    for (int step = 0; step < 150; ++step) {
      const uint64_t session = 1 + dice.below(BelieverModel::kSessions);
      const size_t inode = dice.below(BelieverModel::kInodes);
      switch (dice.below(4)) {
        case 0: model.look(session, inode); break;
        case 1: run(model.poll(session, dice.below(dice.coin() ? 30 : 700), dice.below(5) == 0)); break;
        default: run(model.change(session, inode));
      }
      model.simulation.run_for(std::chrono::milliseconds(dice.below(dice.coin() ? 20 : 400)));
    }
    EXPECT_TRUE(model.simulation.run_until([&] { return model.under_way == 0; }, 1min));
  }
}

}  // namespace
}  // namespace kintsugi::metaserver
