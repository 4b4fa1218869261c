// Several lost chunks in one pass over the helpers, split ranges, and what happens when a part of that goes wrong.
#include "tests/chunkserver/tree_rig.h"
#include "tests/expect_ok.h"

namespace kintsugi::chunkserver {
namespace {

constexpr uint32_t kLost = Equation::kFirstLost;

/// Three lost chunks of five helpers: root <- destination 1 <- destination 2 <- chain of the helpers.
struct JointRig : TreeRig {
  explicit JointRig(uint32_t rows = 1, size_t bytes = 3 * kMiB) {
    std::mt19937_64 random(7);
    equation.rows = rows;
    equation.cell_bytes = rows > 1 ? kMiB : 0;
    for (uint32_t i = 0; i < 5; ++i)
      equation.helpers.push_back(chunk_bytes(bytes, i));
    equation.lost_lengths.assign(3, bytes);
    equation.numbers.resize(equation.sums() * 5 * rows);
    for (uint8_t& number : equation.numbers)
      number = random();
    store_helpers(equation);
    const auto sums = equation.expected_sums();
    for (uint32_t i = 0; i < 3; ++i)
      lost.push_back(equation.lost(i, sums));
    request = request_for(equation, lost);
    request.set_slice_bytes(256 * 1024);
    proto::RepairNode below;
    for (uint32_t helper = 5; helper-- > 0;) {
      proto::RepairNode node = helper_node(equation, helper, equation.sums());
      if (helper < 4) *node.add_children() = below;
      below = node;
    }
    for (uint32_t number = 2; number > 0; --number) {
      proto::RepairNode node = destination(equation, number, lost[number]);
      *node.add_children() = below;
      below = node;
    }
    *request.add_children() = below;
  }

  proto::RepairNode& first() { return *request.mutable_children(0); }
  proto::RepairNode& second() { return *first().mutable_children(0); }

  void expect_nothing_stored() {
    simulation.run_for(1s);
    for (uint32_t i = 0; i < 3; ++i) {
      if (!servers[kLost + i].server) continue;
      EXPECT_EQ(store(kLost + i).chunks(), 0u) << "on destination " << i;
      EXPECT_EQ(store(kLost + i).open_writers(), 0u);
      EXPECT_TRUE(servers[kLost + i].node->disk().list_now("/disk/tmp").empty());
    }
    for (Server& server : servers) {
      if (!server.server) continue;
      EXPECT_EQ(server.server->counters().repairs_running, 0u);
    }
  }
  Status outcome() {
    auto repaired = repair(kLost, request);
    return repaired ? Status{} : repaired.error();
  }
  void start_repair(std::optional<Result<proto::RepairChunkResponse>>& into) {
    auto task = [](JointRig& rig,
                   std::optional<Result<proto::RepairChunkResponse>>& into) -> asio::awaitable<void> {
      into = co_await ClusterRig::repair_on(rig, kLost, rig.request);
    };
    asio::co_spawn(simulation.executor(), task(*this, into), asio::detached);
  }
  void set_links(uint64_t bytes_per_second) {
    for (size_t i = 0; i < servers.size(); ++i)
      simulation.network().set_link(host(i), bytes_per_second, bytes_per_second);
  }

  Equation equation;
  std::vector<std::vector<std::byte>> lost;
  proto::RepairChunkRequest request;
};

bool names(const Status& status, std::string_view what) {
  return status.message().find(what) != std::string::npos;
}

TEST(JointRepair, StoresNothingOnAServerThatHasTheAddressOfTheOneThatIsMeant) {
  JointRig root;
  root.request.set_server_id(root.id(kLost).value ^ 1);
  EXPECT_EQ(root.outcome().code(), Code::kUnavailable);
  root.expect_nothing_stored();
  JointRig below;
  below.first().set_server_id(below.first().server_id() ^ 1);
  EXPECT_EQ(below.outcome().code(), Code::kUnavailable);
  below.expect_nothing_stored();
}

TEST(JointRepair, RebuildsThreeChunksInOnePassOverTheHelpers) {
  for (uint32_t rows : {1u, 4u}) {
    JointRig rig(rows);
    auto repaired = rig.repair(kLost, rig.request);
    ASSERT_TRUE(repaired) << repaired.error();
    for (uint32_t i = 0; i < 3; ++i) {
      auto bytes = rig.get(kLost + i, {StripeId(1), kLost + i});
      ASSERT_TRUE(bytes) << bytes.error();
      EXPECT_TRUE(*bytes == rig.lost[i]);
    }
    // Each helper's chunk is read once; each chunk that comes back is written once.
    EXPECT_EQ(repaired->timing().disk_bytes(), 8 * 3 * kMiB);
    EXPECT_EQ(repaired->servers(1).role(), proto::ServerTiming::DESTINATION);
    EXPECT_EQ(repaired->servers(2).role(), proto::ServerTiming::DESTINATION);
    EXPECT_EQ(repaired->servers(0).timing().bytes_in(), 3 * kMiB);
  }
}

TEST(JointRepair, AStoreThatIsNotWhatWasLostFailsTheTreeAndNamesServerAndChunk) {
  JointRig rig;
  rig.second().mutable_stores(0)->set_crc(rig.second().stores(0).crc() + 1);
  const Status status = rig.outcome();
  EXPECT_EQ(status.code(), Code::kCorrupt);
  EXPECT_TRUE(names(status, fmt::format("chunk 1:{} on server {}", kLost + 2, rig.id(kLost + 2)))) << status;
  rig.expect_nothing_stored();
}

TEST(JointRepair, AnotherChunkInTheWayFailsTheTree) {
  JointRig rig;
  ChunkServer& server = *rig.servers[kLost + 1].server;
  const std::vector<std::byte> other = chunk_bytes(1000, 5);
  KINTSUGI_ASSERT_OK(
      rig.simulation.run(put(server.store(), server.buffers(), {StripeId(1), kLost + 1}, other)));
  const Status status = rig.outcome();
  EXPECT_EQ(status.code(), Code::kAlreadyExists);
  EXPECT_TRUE(names(status, fmt::format("chunk 1:{} on server {}", kLost + 1, rig.id(kLost + 1)))) << status;
  EXPECT_EQ(rig.store(kLost).chunks(), 0u);
  EXPECT_EQ(rig.store(kLost + 2).chunks(), 0u);
}

TEST(JointRepair, ACorruptHelperDeepInTheTreeLeavesNothingStored) {
  JointRig rig;
  KINTSUGI_ASSERT_OK(rig.servers[3].node->disk().flip_bit(
      chunk_file(rig.servers[3].node->disk(), "/disk", chunk_id(0x1, 3)), 4096 + 2 * kMiB + 9));
  const Status status = rig.outcome();
  EXPECT_EQ(status.code(), Code::kCorrupt);
  EXPECT_TRUE(names(status, fmt::format("server {}", rig.id(3)))) << status;
  rig.expect_nothing_stored();
}

TEST(JointRepair, AHelperThatDiesLeavesNothingStored) {
  JointRig rig(1, 8 * kMiB);
  rig.set_links(10 << 20);
  std::optional<Result<proto::RepairChunkResponse>> repaired;
  rig.start_repair(repaired);
  rig.simulation.run_for(300ms);
  ASSERT_FALSE(repaired);
  rig.servers[4].node->crash(false);
  ASSERT_TRUE(rig.simulation.run_until([&] { return repaired.has_value(); }, 1min));
  ASSERT_FALSE(*repaired);
  EXPECT_EQ(repaired->error().code(), Code::kUnavailable);
  EXPECT_TRUE(names(repaired->error(), fmt::format("server {}", rig.id(4)))) << repaired->error();
  rig.stop_server(4);
  rig.expect_nothing_stored();
}

TEST(JointRepair, AHelperThatHangsEndsTheTreeWithinAMinute) {
  JointRig rig(1, 8 * kMiB);
  rig.simulation.network().conditions().break_after = 1h;
  rig.set_links(10 << 20);
  std::optional<Result<proto::RepairChunkResponse>> repaired;
  rig.start_repair(repaired);
  rig.simulation.run_for(300ms);
  ASSERT_FALSE(repaired);
  rig.simulation.network().isolate(rig.host(4));
  ASSERT_TRUE(rig.simulation.run_until([&] { return repaired.has_value(); }, 1min));
  ASSERT_FALSE(*repaired);
  EXPECT_EQ(repaired->error().code(), Code::kDeadlineExceeded);
  EXPECT_TRUE(names(repaired->error(), fmt::format("server {}", rig.id(4)))) << repaired->error();
  rig.simulation.network().heal();
  rig.simulation.run_for(1min);
  rig.expect_nothing_stored();
}

TEST(JointRepair, ARootThatDiesLeavesNothingStored) {
  JointRig rig(1, 8 * kMiB);
  rig.set_links(10 << 20);
  std::optional<Result<proto::RepairChunkResponse>> repaired;
  rig.start_repair(repaired);
  rig.simulation.run_for(500ms);
  rig.servers[kLost].node->crash(false);
  rig.stop_server(kLost);
  rig.simulation.run_for(5s);
  rig.expect_nothing_stored();
}

TEST(JointRepair, NeedsTheRightToWriteEachChunk) {
  JointRig rig;
  rig.second().mutable_stores(0)->set_capability(rig.capability({StripeId(1), kLost + 1}, rpc::kOpWrite));
  EXPECT_EQ(rig.outcome().code(), Code::kPermissionDenied);
  rig.expect_nothing_stored();
}

TEST(JointRepair, SaysWhatIsWrongWithATree) {
  JointRig rig;
  const proto::RepairChunkRequest good = rig.request;
  const auto refused = [&](std::string_view why) {
    const Status status = rig.outcome();
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << why;
    EXPECT_TRUE(names(status, why)) << status << " instead of " << why;
    rig.request = good;
  };
  rig.first().mutable_stores(0)->set_first_sum(2);
  refused("chunk 9 is to be made of sums that are not there");
  rig.first().mutable_stores(0)->set_length(4 * kMiB);
  refused("chunk 9 is to be stored, but not all of it is summed up");
  rig.first().mutable_stores(0)->set_index(kLost);
  refused("chunk 8 is rebuilt twice");
  rig.first().mutable_stores(0)->set_index(3);
  refused("chunk 3 is both rebuilt and a helper");
  rig.first().mutable_stores(0)->set_index(32);
  refused("impossible chunk 32 to store");
  rig.first().set_outputs(0, 2);
  refused("sends sum 2 of 2, or sends it twice");
  rig.second().set_outputs(1, 0);
  refused("sends sum 0 of 3, or sends it twice");
  rig.first().clear_outputs();
  refused("sends 2 sums to one who keeps 1");
  rig.first().set_combine("ab");
  refused("combines 2 numbers instead of 1 x 1");
  rig.first().set_sums(0);
  refused("with 0 sums");
  rig.second().set_sums(200);
  refused("with 200 sums");
  rig.second().clear_children();
  refused("has neither a chunk nor children");
  rig.second().add_own_rows(0);
  refused("reads rows of no chunk");
  rig.second().mutable_children(0)->add_own_rows(1);
  refused("reads rows out of order or that are not there");
  rig.second().mutable_children(0)->set_sums(2);
  refused("coefficients for");
  rig.second().mutable_children(0)->set_index(1);
  refused("chunk 1 helps twice");
  rig.second().mutable_children(0)->set_index(40);
  refused("no chunk has number 40");
  rig.second().mutable_children(0)->set_address("nowhere");
  refused("\"nowhere\" is no address");
  rig.first().set_slice_period(2);
  rig.first().set_slice_mask(3);
  refused("stores a chunk, but sees only some slices");
  rig.second().set_slice_period(2);
  rig.second().set_slice_mask(1);
  refused("has a slice mask of its own below the root");
  rig.request.set_rows(3);
  rig.request.set_cell_bytes(kMiB);
  refused("cannot be cut into 3 rows");
  rig.request.set_rows(9);
  refused("9 rows");
  proto::RepairNode deep = rig.node_on(0);
  deep.set_sums(1);
  for (size_t i = 0; i < partial_sum::kMaxTreeNodes; ++i) {
    proto::RepairNode above = deep;
    above.clear_children();
    *above.add_children() = deep;
    deep = above;
  }
  *rig.request.mutable_children(0) = deep;
  refused("more than 64 nodes");
  KINTSUGI_EXPECT_OK(rig.outcome());
}

TEST(SplitRepair, RefusesMasksThatLeaveASliceOut) {
  TreeRig rig;
  Equation equation;
  equation.helpers = {chunk_bytes(kMiB, 1), chunk_bytes(kMiB, 2)};
  equation.lost_lengths = {kMiB};
  equation.numbers = {1, 1};
  rig.store_helpers(equation);
  proto::RepairChunkRequest request = rig.request_for(equation, {equation.lost(0, equation.expected_sums())});
  request.set_slice_bytes(64 * 1024);
  for (uint32_t tree = 0; tree < 2; ++tree) {
    proto::RepairNode node = rig.helper_node(equation, tree, 1);
    *node.add_children() = rig.helper_node(equation, 1 - tree, 1);
    node.set_slice_period(3);
    node.set_slice_mask(tree == 0 ? 0b001 : 0b100);
    *request.add_children() = node;
  }
  auto outcome = [&] {
    auto repaired = rig.repair(kLost, request);
    return repaired ? std::string("fine") : repaired.error().message();
  };
  EXPECT_NE(outcome().find("slice 1 of every 3 is carried by no tree"), std::string::npos) << outcome();
  request.mutable_children(0)->set_slice_mask(0b101);
  EXPECT_NE(outcome().find("helps twice"), std::string::npos) << outcome();
  request.mutable_children(0)->set_slice_mask(0b1001);
  EXPECT_NE(outcome().find("beyond its period"), std::string::npos) << outcome();
  request.mutable_children(0)->set_slice_mask(0b011);
  request.mutable_children(0)->set_slice_period(4);
  EXPECT_NE(outcome().find("different periods"), std::string::npos) << outcome();
  request.mutable_children(0)->set_slice_period(65);
  EXPECT_NE(outcome().find("a slice period of 65"), std::string::npos) << outcome();
  request.mutable_children(0)->set_slice_period(3);
  EXPECT_EQ(outcome(), "fine");
}

/// Seconds of a repair of 12 MiB from two helpers with links of 10 MiB/s, in transfers of the chunk.
double transfers(bool staggered, uint64_t slice, std::vector<uint64_t> masks) {
  TreeRig rig;
  Equation equation;
  equation.helpers = {chunk_bytes(12 * kMiB, 1), chunk_bytes(12 * kMiB, 2)};
  equation.lost_lengths = {12 * kMiB};
  equation.numbers = {3, 7};
  rig.store_helpers(equation);
  proto::RepairChunkRequest request = rig.request_for(equation, {equation.lost(0, equation.expected_sums())});
  request.set_slice_bytes(slice);
  request.set_staggered(staggered);
  for (uint32_t tree = 0; tree < 2; ++tree) {
    proto::RepairNode node = rig.helper_node(equation, tree, 1);
    if (!masks.empty()) {
      *node.add_children() = rig.helper_node(equation, 1 - tree, 1);
      node.set_slice_period(2);
      node.set_slice_mask(masks[tree]);
    }
    *request.add_children() = node;
  }
  for (size_t i = 0; i < rig.servers.size(); ++i) {
    const uint64_t rate = i < 2 ? 10 << 20 : 100 << 20;
    rig.simulation.network().set_link(rig.host(i), rate, rate);
  }
  auto repaired = rig.repair(kLost, request);
  EXPECT_TRUE(repaired) << repaired.error();
  return repaired->timing().seconds() / 1.2;
}

TEST(SplitRepair, TwoTreesCarryTheirSlicesAtTheSameTime) {
  // Each helper sends half of the slices to the root and the other half to the other helper: both links are
  // full all the time, as they are with a single chain, whose root link is faster than that.
  EXPECT_LE(transfers(false, 256 * 1024, {0b01, 0b10}), 1.15);
}

TEST(StaggeredRepair, AsksOneHelperAfterTheOther) {
  EXPECT_LE(transfers(false, 256 * 1024, {}), 1.1);
  EXPECT_GE(transfers(true, 256 * 1024, {}), 1.9);
}

}  // namespace
}  // namespace kintsugi::chunkserver
