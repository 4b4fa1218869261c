// What people call servers: numbers that stay, names that are told apart.
#include <gmock/gmock.h>

#include "tests/expect_ok.h"
#include "tests/metaserver/metaserver_rig.h"

namespace kintsugi::metaserver {
namespace {

using testing::ElementsAre;

std::vector<uint32_t> numbers_of(MetaServerRig& rig) {
  std::vector<uint32_t> numbers;
  for (const proto::ServerState& state : rig.server_states())
    numbers.push_back(state.number());
  return numbers;
}

FakeServer& join(MetaServerRig& rig, const std::string& name, uint32_t wanted = 0) {
  FakeServer& server = rig.add_server(0);
  server.name = name;
  server.number = wanted;
  rig.heartbeat(server);
  EXPECT_TRUE(server.registered) << name;
  return server;
}

std::string shown(MetaServerRig& rig, const FakeServer& server) {
  return rig.meta->state().servers.registry.name_of(server.id);
}

TEST(ServerNames, NumbersAreGivenInTheOrderOfJoiningAndStay) {
  MetaServerRig rig(1, 4);
  EXPECT_THAT(numbers_of(rig), ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(rig.servers[2].number, 3u);
  EXPECT_EQ(rig.servers[2].shown, "10.0.2.102:9000") << "a server without a name is called by its address";
  rig.restart();
  EXPECT_THAT(numbers_of(rig), ElementsAre(1, 2, 3, 4)) << "before anybody has registered again";
  std::reverse(rig.servers.begin(), rig.servers.end());
  rig.heartbeat_all();
  EXPECT_THAT(numbers_of(rig), ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(join(rig, "").number, 5u);
}

TEST(ServerNames, ANewServerGetsTheNumberThatItAsksForIfItIsFree) {
  MetaServerRig rig(1, 2);
  EXPECT_EQ(join(rig, "", 7).number, 7u);
  EXPECT_EQ(join(rig, "", 7).number, 8u) << "taken";
  EXPECT_EQ(join(rig, "", 4).number, 4u);
  EXPECT_EQ(join(rig, "", 2'000'000'000).number, 9u) << "too large to be of use to anybody";
  // Metadata that knows a server knows its number, too.
  FakeServer& known = rig.servers[0];
  known.number = 5;
  known.registered = false;
  rig.heartbeat(known);
  EXPECT_EQ(known.number, 1u);
}

TEST(ServerNames, TheNumberOfARemovedServerIsItsOwnForGood) {
  MetaServerRig rig(1, 3);
  FakeServer& gone = rig.servers[2];
  const auto forget = [&] {
    proto::DrainServerRequest drain;
    drain.set_server_id(gone.id.value);
    drain.set_drain(true);
    KINTSUGI_EXPECT_OK(rig.status_of(rig.call<proto::Empty>(rpc::Method::kDrainServer, drain)));
    proto::RemoveServerRequest request;
    request.set_server_id(gone.id.value);
    KINTSUGI_EXPECT_OK(rig.status_of(rig.call<proto::Empty>(rpc::Method::kRemoveServer, request)));
  };
  forget();
  gone.alive = false;
  rig.restart();
  rig.heartbeat_all();
  EXPECT_EQ(shown(rig, gone), "10.0.2.102:9000") << "the history may still tell of it";
  EXPECT_EQ(join(rig, "", 3).number, 4u);
  gone.incarnation = 2;  // its daemon was started again
  gone.number = 0;
  gone.registered = false;
  rig.heartbeat(gone);
  EXPECT_EQ(gone.number, 3u);
}

TEST(ServerNames, ANameIsShownForTheFirstLivingServerThatClaimsIt) {
  MetaServerRig rig(1, 3);
  FakeServer& first = join(rig, "blue-1");
  FakeServer& second = join(rig, "blue-1");
  EXPECT_EQ(first.number, 4u);
  EXPECT_EQ(second.shown, "blue-1#5");
  EXPECT_EQ(shown(rig, first), "blue-1");
  // The disks of a server were replaced: the living one has its name.
  first.alive = false;
  rig.pass(12);
  EXPECT_EQ(shown(rig, second), "blue-1");
  EXPECT_EQ(shown(rig, first), "blue-1#4");
  first.alive = true;
  rig.pass(2);
  EXPECT_EQ(shown(rig, first), "blue-1");
  EXPECT_EQ(shown(rig, second), "blue-1#5");
  // A server may be given another name.
  first.name = "green";
  ++first.incarnation;
  first.registered = false;
  rig.heartbeat(first);
  EXPECT_EQ(shown(rig, first), "green");
  EXPECT_EQ(shown(rig, second), "blue-1");
}

TEST(ServerNames, StripesAndErrorsCarryThem) {
  MetaServerRig rig(1, 9);
  FakeServer& named = rig.servers[0];
  named.name = "blue";
  ++named.incarnation;
  named.registered = false;
  rig.heartbeat_all();
  KINTSUGI_ASSERT_OK(rig.put("/f", 8));
  const auto opened = rig.open("/f");
  ASSERT_TRUE(opened) << opened.error();
  size_t seen = 0;
  for (const proto::Stripe& stripe : opened->stripes()) {
    for (const proto::ChunkPlacement& chunk : stripe.chunks()) {
      if (chunk.server_id() != named.id.value) continue;
      ++seen;
      EXPECT_EQ(chunk.server_name(), "blue");
      EXPECT_EQ(chunk.server_number(), 1u);
    }
  }
  EXPECT_GT(seen, 0u);
  proto::RemoveServerRequest request;
  request.set_server_id(named.id.value);
  const auto removed = rig.call<proto::Empty>(rpc::Method::kRemoveServer, request);
  ASSERT_FALSE(removed);
  EXPECT_EQ(removed.error().message(), "server blue is in use: drain it first");
}

TEST(ServerNames, ANameThatIsNoneIsRefused) {
  MetaServerRig rig(1, 3);
  FakeServer& server = rig.add_server(0);
  server.name = "12";
  rig.heartbeat(server);
  ASSERT_EQ(server.refusals.size(), 1u);
  EXPECT_EQ(server.refusals[0].code(), Code::kInvalidArgument);
  EXPECT_EQ(rig.server_states().size(), 3u);
}

}  // namespace
}  // namespace kintsugi::metaserver
