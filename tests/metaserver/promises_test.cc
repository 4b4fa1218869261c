// What kernels may believe: whoever changes it is answered once they have heard of it, or can believe nothing any more.
#include "metaserver/cluster/promises.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>

#include "common/runtime/task_group.h"
#include "tests/metaserver/metaserver_rig.h"
#include "tests/simulation/runtime/sim_random.h"
#include "tests/test_seeds.h"

namespace kintsugi::metaserver {
namespace {

constexpr uint64_t kReader = 5, kWriter = 6, kRoot = 1;

struct PromiseRig : MetaServerRig {
  PromiseRig() {
    KINTSUGI_EXPECT_OK(put("/f"));
    file = open("/f")->attributes().inode();
    for (const uint64_t session : {kReader, kWriter})
      keep(session, 0);
  }

  void keep(uint64_t session, uint64_t heard, bool believes = true) {
    proto::KeepSessionRequest request;
    request.set_session(session);
    request.set_all(true);
    request.set_believes(believes);
    request.set_heard(heard);
    KINTSUGI_EXPECT_OK(status_of(call<proto::KeepSessionResponse>(rpc::Method::kKeepSession, request)));
  }
  void look(uint64_t session, const std::string& name) {
    proto::LookupRequest request;
    request.set_parent(kRoot);
    request.set_name(name);
    request.set_session(session);
    (void)call<proto::InodeResponse>(rpc::Method::kLookup, request);
  }
  Status chmod(uint64_t session, uint32_t mode) {
    proto::SetAttributesRequest request;
    request.mutable_change()->set_session(session);
    request.mutable_change()->set_number(++number);
    request.set_inode(file);
    request.set_mode(mode);
    return status_of(call<proto::InodeResponse>(rpc::Method::kSetAttributes, request));
  }
  proto::MakeInodeRequest making(uint64_t session, const std::string& name) {
    proto::MakeInodeRequest request;
    request.mutable_change()->set_session(session);
    request.mutable_change()->set_number(++number);
    request.set_parent(kRoot);
    request.set_name(name);
    request.set_type(proto::Attributes::FILE);
    request.set_mode(0644);
    return request;
  }
  Status make(uint64_t session, const std::string& name) {
    return status_of(call<proto::InodeResponse>(rpc::Method::kMakeInode, making(session, name)));
  }
  asio::awaitable<void> make_in_background(proto::MakeInodeRequest request, std::optional<Status>& ended) {
    proto::InodeResponse response;
    ended = co_await call_async(rpc::Method::kMakeInode, request, response);
  }
  proto::AwaitRecallsResponse await_news(uint64_t session, uint64_t after) {
    proto::AwaitRecallsRequest request;
    request.set_session(session);
    request.set_after(after);
    return *call<proto::AwaitRecallsResponse>(rpc::Method::kAwaitRecalls, request);
  }
  /// How long a call takes, in virtual time.
  template <class Call>
  Duration took(const Call& call) {
    const TimePoint begin = simulation.now();
    KINTSUGI_EXPECT_OK(call());
    return simulation.now() - begin;
  }

  uint64_t file = 0, number = 0;
};

TEST(Promises, AChangeWaitsForWhomeverMayBelieveSomethingElseAndNotForLonger) {
  PromiseRig rig;
  EXPECT_LT(rig.took([&] { return rig.chmod(kWriter, 0600); }), 100ms) << "nobody was told anything";
  rig.look(kReader, "f");
  rig.simulation.run_for(300ms);
  const Duration waited = rig.took([&] { return rig.chmod(kWriter, 0640); });
  EXPECT_GT(waited, Promises::kHolds - 400ms) << "the reader says nothing";
  EXPECT_LE(waited, Promises::kHolds);
  EXPECT_LT(rig.took([&] { return rig.chmod(kWriter, 0600); }), 100ms)
      << "it cannot believe anything any more";
  rig.simulation.run_for(2s);
  rig.look(kReader, "f");
  EXPECT_LT(rig.took([&] { return rig.chmod(kReader, 0600); }), 100ms) << "its own change it knows";
  rig.look(kReader, "f");
  EXPECT_GT(rig.took([&] { return rig.chmod(0, 0640); }), 500ms) << "one without a session";
}

TEST(Promises, WhoHasHeardIsNotWaitedForAndIsToldWhichNames) {
  PromiseRig rig;
  rig.look(kReader, "absent");
  std::optional<Status> made;
  asio::co_spawn(rig.client_node.runtime().executor,
                 rig.make_in_background(rig.making(kWriter, "absent"), made), asio::detached);
  const TimePoint begin = rig.simulation.now();
  const proto::AwaitRecallsResponse news = rig.await_news(kReader, 0);
  ASSERT_EQ(news.changed_size(), 1);
  EXPECT_EQ(news.changed(0).inode(), kRoot);
  ASSERT_EQ(news.changed(0).names_size(), 1);
  EXPECT_EQ(news.changed(0).names(0), "absent");
  rig.simulation.run_for(100ms);
  EXPECT_FALSE(made) << "the reader's kernel may still believe it";
  rig.keep(kReader, news.number());
  rig.simulation.run_for(100ms);
  ASSERT_TRUE(made);
  KINTSUGI_EXPECT_OK(*made);
  EXPECT_LT(rig.simulation.now() - begin, 500ms);
  // Whoever has heard so believes no names there for a while, once those are over that it believed before.
  rig.simulation.run_for(Promises::kHolds);
  rig.look(kReader, "another");
  EXPECT_LT(rig.took([&] { return rig.make(kWriter, "another"); }), 100ms);
  rig.simulation.run_for(kShared);
  rig.look(kReader, "third");
  EXPECT_GT(rig.took([&] { return rig.make(kWriter, "third"); }), 500ms) << "that while is over";
}

TEST(Promises, WhatWasToldBeforeAStartOfTheMetaserverHolds) {
  PromiseRig rig;
  rig.look(kReader, "f");
  rig.restart();
  rig.heartbeat_all();
  for (const uint64_t session : {kReader, kWriter})
    rig.keep(session, 0);
  const TimePoint begin = rig.simulation.now();
  KINTSUGI_EXPECT_OK(rig.chmod(kWriter, 0600));
  EXPECT_GT(rig.simulation.now() - begin, 700ms);
}

TEST(Promises, AWriteLeaseIsGivenOnceNobodyBelievesAnythingOfTheFile) {
  PromiseRig rig;
  rig.look(kReader, "f");
  proto::GetInodeRequest request;
  request.set_inode(rig.file);
  request.set_session(kWriter);
  request.set_hold(true);
  request.set_lease(true);
  const TimePoint begin = rig.simulation.now();
  const auto got = rig.call<proto::InodeResponse>(rpc::Method::kGetInode, request);
  ASSERT_TRUE(got) << got.error();
  EXPECT_TRUE(got->lease());
  EXPECT_GT(rig.simulation.now() - begin, 700ms) << "its owner changes it without a word to the metaserver";
}

TEST(Promises, ClientsWithoutAKernelAreNotWaitedFor) {
  PromiseRig rig;
  rig.keep(kReader, 0, false);
  rig.look(kReader, "f");
  EXPECT_LT(rig.took([&] { return rig.chmod(kWriter, 0600); }), 100ms);
}

TEST(Promises, ASecondChangeWaitsForWhoHasNotHeardOfTheFirst) {
  PromiseRig rig;
  rig.look(kReader, "f");
  std::optional<Status> first;
  const auto change = [](PromiseRig& rig, std::optional<Status>& ended) -> asio::awaitable<void> {
    proto::SetAttributesRequest request;
    proto::InodeResponse response;
    request.mutable_change()->set_session(kWriter);
    request.mutable_change()->set_number(++rig.number);
    request.set_inode(rig.file);
    request.set_mode(0600);
    ended = co_await rig.call_async(rpc::Method::kSetAttributes, request, response);
  };
  asio::co_spawn(rig.simulation.executor(), change(rig, first), asio::detached);
  rig.simulation.run_for(20ms);
  EXPECT_FALSE(first) << "it waits for the reader";
  KINTSUGI_EXPECT_OK(rig.chmod(7, 0640));  // another client's
  EXPECT_TRUE(first) << "the second change was answered while the reader believed what was before the first";
  rig.simulation.run_for(2s);
  EXPECT_LT(rig.took([&] { return rig.chmod(7, 0600); }), 100ms) << "nobody believes anything any more";
}

TEST(Promises, AWriteLeaseWaitsForWhoHasNotHeardOfAChangeBefore) {
  PromiseRig rig;
  rig.look(kReader, "f");
  std::optional<Status> first;
  asio::co_spawn(
      rig.simulation.executor(),
      [](PromiseRig& rig, std::optional<Status>& ended) -> asio::awaitable<void> {
        proto::SetAttributesRequest request;
        proto::InodeResponse response;
        request.mutable_change()->set_session(7);
        request.mutable_change()->set_number(1);
        request.set_inode(rig.file);
        request.set_mode(0600);
        ended = co_await rig.call_async(rpc::Method::kSetAttributes, request, response);
      }(rig, first),
      asio::detached);
  rig.simulation.run_for(20ms);
  proto::GetInodeRequest request;
  request.set_inode(rig.file);
  request.set_session(kWriter);
  request.set_hold(true);
  request.set_lease(true);
  const auto got = rig.call<proto::InodeResponse>(rpc::Method::kGetInode, request);
  ASSERT_TRUE(got) << got.error();
  EXPECT_TRUE(got->lease());
  EXPECT_TRUE(first)
      << "its owner changes the file without a word, and the reader still believed what was before";
}

/// Sessions that are told things, hear of changes late, and all at random; judged by what their kernels may believe.
struct BelieverModel {
  static constexpr size_t kSessions = 4, kInodes = 3;
  struct Belief {
    uint64_t version = 0;
    TimePoint until = TimePoint::min();
  };

  explicit BelieverModel(uint64_t seed)
      : simulation(seed), dice(seed), node(simulation, "metaserver"), news(node.runtime()) {
    promises.emplace(node.runtime(), news);
    for (uint64_t session = 1; session <= kSessions; ++session)
      if (session > 1 || dice.coin()) promises->session_is(session, true);
  }

  TimePoint now() { return simulation.now(); }
  void look(uint64_t session, size_t inode) {
    promises->made(session, InodeId{inode + 1});
    beliefs[session - 1][inode] = {versions[inode], now() + kBelieved};
  }
  asio::awaitable<void> change(uint64_t by, size_t inode) {
    ++under_way;
    const uint64_t version = ++versions[inode];
    auto hearers = promises->changed(InodeId{inode + 1}, by);
    beliefs[by - 1][inode] = {version, now() + kBelieved};
    promises->made(by, InodeId{inode + 1});
    co_await promises->heard(std::move(hearers));
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
  runtime::Event news;
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
