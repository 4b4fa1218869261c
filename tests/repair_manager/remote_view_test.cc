// What a repair manager believes of stripes when answers of the metaserver come late.
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <gtest/gtest.h>

#include "common/rpc/server.h"
#include "repair_manager/daemon/remote_cluster_view.h"
#include "tests/expect_ok.h"
#include "tests/simulation/runtime/sim_node.h"
#include "tests/simulation/runtime/simulation.h"

namespace kintsugi::repair_manager {
namespace {

constexpr StripeId kStripe{7};
constexpr Duration kLate = 1s;
constexpr uint64_t kLife = 5;
const runtime::Endpoint kAddress{"10.0.0.1", 7000};

/// A metaserver that describes a stripe of one chunk at once and answers a second later. It says at once whether a repair may be
/// committed, but to the first who asks. It repairs chunks itself.
struct LateMetaserver {
  LateMetaserver() {
    server.handle(rpc::Method::kDescribeStripes,
                  [this](Context, const proto::DescribeStripesRequest& request,
                         proto::DescribeStripesResponse& response) -> asio::awaitable<Status> {
                    ++questions;
                    for (const uint64_t id : request.stripe_ids()) {
                      proto::Stripe& stripe = *response.add_stripes()->mutable_stripe();
                      stripe.set_stripe_id(id);
                      stripe.add_chunks()->set_available(is_there);
                    }
                    (void)co_await tasks.sleep_for(kLate);
                    co_return Status{};
                  });
    server.handle(rpc::Method::kCommitRepair,
                  [this](Context, const proto::CommitRepairRequest& request,
                         proto::CommitRepairResponse& response) -> asio::awaitable<Status> {
                    response.set_life(kLife);
                    if (!request.check_only()) life_at_commit = request.life();
                    if (request.check_only() && checks++ == 0) (void)co_await tasks.sleep_for(kLate);
                    co_return Status{};
                  });
    server.handle(rpc::Method::kRepairChunk,
                  [this](Context, const proto::RepairChunkRequest&,
                         proto::RepairChunkResponse&) -> asio::awaitable<Status> {
                    (void)co_await tasks.sleep_for(2 * kLate);
                    co_return Status{};
                  });
    server.handle(rpc::Method::kEndRepair,
                  [](Context, const proto::EndRepairRequest&, proto::Empty&) -> asio::awaitable<Status> {
                    co_return Status{};
                  });
    KINTSUGI_EXPECT_OK(server.start(kAddress));
    proto::JoinRepairResponse all;
    for (uint32_t shard = 0; shard < kRepairShards; ++shard)
      all.add_shards(shard);
    view.set_shards(all, simulation.now() + 1h);
  }
  ~LateMetaserver() {
    simulation.run(view.stop());
    simulation.run(client.stop());
    tasks.request_stop();
    simulation.run(server.stop());
    simulation.run(tasks.stop());
  }
  void repair_in_background(uint64_t number, std::optional<Status>& ended) {
    const auto run = [](RemoteClusterView& of, uint64_t id,
                        std::optional<Status>& status) -> asio::awaitable<void> {
      proto::RepairChunkRequest request;
      request.set_stripe_id(kStripe.value);
      request.set_repair_id(id);
      const auto repaired = co_await of.execute({}, kAddress, request);
      status = repaired ? Status{} : repaired.error();
    };
    asio::co_spawn(simulation.executor(), run(view, number, ended), asio::detached);
  }
  void fetch_in_background(std::optional<Status>& ended) {
    const auto run = [](RemoteClusterView& of, std::optional<Status>& status) -> asio::awaitable<void> {
      std::vector<StripeId> stripes{kStripe};
      status = co_await of.fetch({}, std::move(stripes));
    };
    asio::co_spawn(simulation.executor(), run(view, ended), asio::detached);
  }

  simulation::Simulation simulation{1};
  simulation::SimNode meta_node{simulation, "10.0.0.1"}, node{simulation, "10.0.0.2"};
  runtime::TaskGroup tasks{meta_node.runtime()};
  rpc::Secret secret;
  rpc::Server server{meta_node.runtime(), secret, nullptr};
  rpc::Client client{node.runtime(), secret};
  RemoteClusterView view{node.runtime(), client, secret, kAddress, 1};
  bool is_there = true;
  int questions = 0, checks = 0;
  uint64_t life_at_commit = 0;
};

TEST(RemoteView, AChunkThatIsLostWhileItsStripeIsAskedForIsLostWhenTheAnswerComes) {
  LateMetaserver rig;
  std::optional<Status> fetched;
  rig.fetch_in_background(fetched);
  rig.simulation.run_for(kLate / 2);
  ASSERT_EQ(rig.questions, 1);
  rig.is_there = false;
  rig.view.forget(kStripe);
  ASSERT_TRUE(rig.simulation.run_until([&] { return fetched.has_value(); }, 1min));
  KINTSUGI_EXPECT_OK(*fetched);
  ASSERT_TRUE(rig.view.fetched(kStripe)) << "whoever fetches a stripe wants to use it";
  const std::optional<StripeView> stripe = rig.view.stripe(kStripe);
  ASSERT_TRUE(stripe);
  EXPECT_FALSE(stripe->chunks[0].available) << "its repair would be dropped as one of a chunk that is there";
}

TEST(RemoteView, AnAnswerOfBeforeIsNotTakenForTheOneToALaterQuestion) {
  LateMetaserver rig;
  std::optional<Status> first, second;
  rig.fetch_in_background(first);
  rig.simulation.run_for(kLate / 2);
  rig.is_there = false;
  rig.view.forget_all();
  rig.fetch_in_background(second);
  rig.simulation.run_for(3 * kLate / 4);
  EXPECT_FALSE(rig.view.fetched(kStripe)) << "only the first answer has come";
  ASSERT_TRUE(rig.simulation.run_until([&] { return first && second; }, 1min));
  ASSERT_TRUE(rig.view.stripe(kStripe));
  EXPECT_FALSE(rig.view.stripe(kStripe)->chunks[0].available);
}

TEST(RemoteView, ARepairThatWasGivenUpTakesNothingFromTheNextOneOfItsChunk) {
  LateMetaserver rig;
  std::optional<Status> fetched, first, second;
  rig.fetch_in_background(fetched);
  ASSERT_TRUE(rig.simulation.run_until([&] { return fetched.has_value(); }, 1min));
  rig.repair_in_background(1, first);
  rig.simulation.run_for(kLate / 4);
  proto::EndRepairRequest end;
  end.set_repair_id(1);
  rig.simulation.run(rig.view.give_up({}, kAddress, end));
  rig.repair_in_background(2, second);
  ASSERT_TRUE(rig.simulation.run_until([&] { return first && second; }, 1min));
  EXPECT_FALSE(first->ok());
  KINTSUGI_ASSERT_OK(*second);
  KINTSUGI_EXPECT_OK(rig.simulation.run(rig.view.commit_repair({}, {kStripe, 0}, ServerId{}, ServerId{})));
  EXPECT_EQ(rig.life_at_commit, kLife) << "the metaserver would refuse it, and have the copy deleted";
}

TEST(RemoteView, ARepairGoesOnThoughAServerDiesBetweenItsPlanAndItsBeginning) {
  LateMetaserver rig;
  std::optional<Status> fetched, ended;
  rig.fetch_in_background(fetched);
  ASSERT_TRUE(rig.simulation.run_until([&] { return fetched.has_value(); }, 1min));
  rig.view.forget_all();
  rig.repair_in_background(1, ended);
  ASSERT_TRUE(rig.simulation.run_until([&] { return ended.has_value(); }, 1min));
  KINTSUGI_EXPECT_OK(*ended);
}

TEST(RemoteView, StripesOfALostConnectionAreAskedForAnew) {
  LateMetaserver rig;
  std::optional<Status> fetched;
  rig.fetch_in_background(fetched);
  rig.simulation.run_for(kLate / 2);
  rig.simulation.network().cut("10.0.0.2", "10.0.0.1");
  ASSERT_TRUE(rig.simulation.run_until([&] { return fetched.has_value(); }, 1min));
  EXPECT_FALSE(fetched->ok());
  EXPECT_FALSE(rig.view.fetched(kStripe));
  EXPECT_FALSE(rig.view.stripe(kStripe));
  rig.simulation.network().mend("10.0.0.2", "10.0.0.1");
  fetched.reset();
  rig.fetch_in_background(fetched);
  ASSERT_TRUE(rig.simulation.run_until([&] { return fetched.has_value(); }, 1min));
  KINTSUGI_EXPECT_OK(*fetched);
  EXPECT_TRUE(rig.view.stripe(kStripe));
}

}  // namespace
}  // namespace kintsugi::repair_manager
