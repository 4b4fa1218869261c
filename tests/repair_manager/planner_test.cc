#include <map>
#include <set>

#include <gtest/gtest.h>

#include "common/proto/names.h"
#include "erasure/repair_equation.h"
#include "repair_manager/plan/blame.h"
#include "repair_manager/plan/make_plan.h"

namespace kintsugi::repair_manager {
namespace {

constexpr uint64_t kChunkBytes = 64 << 20;
using Nodes = google::protobuf::RepeatedPtrField<proto::RepairNode>;
/// Returns the coefficient of each sub-chunk {chunk, row} in a sum, added up as servers would.
using Sum = std::map<std::pair<uint32_t, uint32_t>, uint8_t>;

class View final : public ClusterView {
 public:
  std::vector<ServerView> servers() const override { return {}; }
  std::optional<StripeView> stripe(StripeId) const override { return std::nullopt; }
  bool deletion_pending(ChunkId chunk, ServerId server) const override {
    return pending.contains({chunk, server});
  }
  std::string capability(ChunkId chunk, uint32_t operations, WallTime) const override {
    return fmt::format("{}/{}", chunk, operations);
  }
  asio::awaitable<Result<proto::RepairChunkResponse>> execute(Context, runtime::Endpoint,
                                                              proto::RepairChunkRequest) override {
    co_return Status{Code::kInternal, "plans are only made here"};
  }
  asio::awaitable<Status> commit_repair(Context, ChunkId, ServerId, ServerId) override { co_return Status{}; }
  void report_lost(ChunkId, ServerId, const std::string&) override {}

  std::set<std::pair<ChunkId, ServerId>> pending;
};

/// A stripe on servers 1..n, each in a rack of its own, and ten more servers.
struct PlannedCluster {
  explicit PlannedCluster(const std::string& name) : policy(*erasure::Policy::parse(name)) {
    stripe = {.id = StripeId{5}, .policy = name};
    for (uint64_t id = 1; id <= policy.chunks() + 10; ++id)
      servers.push_back({.id = ServerId{id},
                         .address = {fmt::format("10.0.0.{}", id), 7000},
                         .rack = fmt::format("rack-{}", id),
                         .alive = true,
                         .free_bytes = uint64_t{1} << 40,
                         .up_bytes_per_second = 100'000'000,
                         .down_bytes_per_second = 100'000'000});
    for (uint32_t i = 0; i < policy.chunks(); ++i)
      stripe.chunks.push_back(
          {.index = i, .server = ServerId{i + 1}, .length = kChunkBytes, .crc = 1000 + i, .available = true});
  }
  void lose(std::vector<uint32_t> chunks) {
    lost = std::move(chunks);
    for (uint32_t index : lost) {
      stripe.chunks[index].available = false;
      server(index + 1).alive = false;
    }
  }
  void slow(uint64_t id, uint64_t rate) {
    server(id).up_bytes_per_second = server(id).down_bytes_per_second = rate;
  }
  ServerView& server(uint64_t id) { return servers[id - 1]; }
  SelectionInput input() {
    table = ServerTable(servers);
    return {.stripe = stripe,
            .lost = lost,
            .policy = policy,
            .servers = table,
            .slots = slots,
            .excluded = excluded,
            .suspects = suspects};
  }
  Result<RepairPlan> plan(Shape shape = Shape::AUTO) {
    return make_plan(input(), {.shape = shape}, {.link = {}, .view = view, .expiry = {}, .id = RepairId{9}});
  }

  erasure::Policy policy;
  StripeView stripe;
  std::vector<uint32_t> lost;
  std::vector<ServerView> servers;
  ServerTable table;
  SlotTable slots{2};
  std::vector<ServerId> excluded;
  std::set<ServerId> suspects;
  View view;
};

/// In GF(2^8) with the polynomial 0x11d, by the definition.
uint8_t product(uint8_t a, uint8_t b) {
  uint8_t result = 0;
  for (; b != 0; b >>= 1) {
    if (b & 1) result = static_cast<uint8_t>(result ^ a);
    a = static_cast<uint8_t>((a << 1) ^ (a & 0x80 ? 0x1d : 0));
  }
  return result;
}

uint8_t coefficient(const std::string& matrix, size_t at) {
  return static_cast<uint8_t>(matrix[at]);
}

void add(Sum& to, const Sum& from, uint8_t factor) {
  for (const auto& [symbol, value] : from)
    to[symbol] = static_cast<uint8_t>(to[symbol] ^ product(factor, value));
}

/// The sums of a node with these children as of slice `slice`; checks what is stored on the way.
std::vector<Sum> sums_of(const Nodes& children, size_t sums, uint32_t rows, uint64_t slice,
                         std::map<uint32_t, std::vector<Sum>>& stored) {
  std::vector<Sum> result(sums);
  for (const proto::RepairNode& node : children) {
    if (node.slice_period() > 0 && !(node.slice_mask() >> (slice % node.slice_period()) & 1)) continue;
    const size_t own = node.own_rows().empty() ? rows : static_cast<size_t>(node.own_rows_size());
    const size_t count = node.sums() > 0 ? node.sums() : node.coefficients().size() / own;
    std::vector<Sum> inner = sums_of(node.children(), count, rows, 0, stored);
    for (size_t s = 0; s < count && !node.coefficients().empty(); ++s)
      for (size_t row = 0; row < own; ++row) {
        const uint32_t which =
            node.own_rows().empty() ? static_cast<uint32_t>(row) : node.own_rows(static_cast<int>(row));
        add(inner[s], {{{node.index(), which}, 1}}, coefficient(node.coefficients(), s * own + row));
      }
    for (const proto::RebuiltChunk& chunk : node.stores())
      stored[chunk.index()] = {inner.begin() + chunk.first_sum(), inner.begin() + chunk.first_sum() + rows};
    std::vector<Sum> out;
    for (uint32_t output : node.outputs())
      out.push_back(inner[output]);
    if (node.outputs().empty()) out = inner;
    for (size_t i = 0; i < out.size(); ++i) {
      if (node.combine().empty()) {
        add(result[i], out[i], 1);
      } else {
        for (size_t s = 0; s < sums; ++s)
          add(result[s], out[i], coefficient(node.combine(), s * out.size() + i));
      }
    }
  }
  for (Sum& sum : result)
    std::erase_if(sum, [](const auto& term) { return term.second == 0; });
  return result;
}

/// A chunk's sums as combinations of data symbols, by the generator matrix.
std::vector<uint8_t> in_data(const erasure::Code& code, const Sum& sum) {
  const size_t columns = code.k() * code.rows();
  std::vector<uint8_t> row(columns);
  for (const auto& [symbol, factor] : sum)
    for (size_t column = 0; column < columns; ++column)
      row[column] = static_cast<uint8_t>(
          row[column] ^
          product(factor, code.generator()[(symbol.first * code.rows() + symbol.second) * columns + column]));
  return row;
}

/// The trees compute each lost chunk, for every slice.
void check_algebra(const PlannedCluster& cluster, const RepairPlan& plan, const Nodes& children) {
  const auto code = erasure::Code::get(cluster.policy);
  const uint32_t rows = code->rows();
  for (uint64_t slice = 0; slice < 64; ++slice) {
    std::map<uint32_t, std::vector<Sum>> made;
    std::vector<Sum> root = sums_of(children, rows, rows, slice, made);
    made[plan.targets.front().index] = root;
    ASSERT_EQ(made.size(), cluster.lost.size());
    for (uint32_t index : cluster.lost)
      for (uint32_t row = 0; row < rows; ++row)
        EXPECT_EQ(in_data(*code, made.at(index)[row]), in_data(*code, {{{index, row}, 1}}))
            << "chunk " << index << " row " << row << " slice " << slice;
  }
}

TEST(Planner, EveryShapeOfEveryCodeComputesTheLostChunk) {
  for (const char* name : {"rs-6-3-1024k", "rs-12-4-1024k", "replication-3-1024k", "lrc-12-2-2-1024k",
                           "rrs-6-3-1024k", "rrs-12-4-1024k"}) {
    for (Shape shape :
         {Shape::STAR, Shape::STAGGERED, Shape::PPR, Shape::CHAIN, Shape::WEIGHTED, Shape::AUTO}) {
      for (uint32_t lost : {0u, 2u}) {
        SCOPED_TRACE(fmt::format("{} {} {}", name, shape_name(shape), lost));
        PlannedCluster cluster(name);
        cluster.lose({lost});
        cluster.slow(2, 25'000'000);
        const auto plan = cluster.plan(shape);
        ASSERT_TRUE(plan) << plan.error().message();
        check_algebra(cluster, *plan, plan->request.children());
        EXPECT_EQ(plan->request.staggered(), shape == Shape::STAGGERED);
        EXPECT_EQ(plan->helpers.size(), plan->helper_chunks.size());
      }
    }
  }
}

TEST(Planner, SeveralLostChunksAreRebuiltInOnePassOnDifferentServers) {
  for (const char* name : {"rs-6-3-1024k", "rs-12-4-1024k", "lrc-12-2-2-1024k", "rrs-6-3-1024k"}) {
    for (Shape shape : {Shape::STAR, Shape::PPR, Shape::CHAIN, Shape::AUTO}) {
      SCOPED_TRACE(fmt::format("{} {}", name, shape_name(shape)));
      PlannedCluster cluster(name);
      cluster.lose({1, 4, 7});
      cluster.stripe.chunks[1].length = 1 << 20;
      const auto plan = cluster.plan(shape);
      ASSERT_TRUE(plan) << plan.error().message();
      ASSERT_EQ(plan->targets.size(), 3u);
      EXPECT_EQ(plan->targets[0].bytes, kChunkBytes) << "the trees have the root's length";
      EXPECT_EQ(plan->request.length(), kChunkBytes);
      EXPECT_EQ(plan->targets[2].index, 1u);
      std::set<ServerId> places;
      for (const RepairTarget& target : plan->targets) {
        EXPECT_GT(target.destination.value, cluster.policy.chunks()) << "holds a chunk of the stripe";
        places.insert(target.destination);
      }
      EXPECT_EQ(places.size(), 3u);
      check_algebra(cluster, *plan, plan->request.children());
      // root <- second <- third <- helpers; every one sends on only what those before it need.
      const proto::RepairNode& second = plan->request.children(0);
      EXPECT_EQ(second.server_id(), plan->targets[1].destination.value);
      EXPECT_EQ(second.outputs_size(), static_cast<int>(cluster.policy.rows()));
      const proto::RepairNode& third = second.children(0);
      EXPECT_EQ(third.server_id(), plan->targets[2].destination.value);
      EXPECT_EQ(third.outputs_size(), 2 * static_cast<int>(cluster.policy.rows()));
      EXPECT_EQ(third.stores(0).length(), uint64_t{1} << 20);
      EXPECT_EQ(third.stores(0).crc(), 1001u);
      EXPECT_EQ(third.stores(0).capability(), fmt::format("5:1/{}", 2 | 4));
    }
  }
}

TEST(Planner, SeveralLostChunksKeepTheRackSpread) {
  PlannedCluster cluster("rs-6-3-1024k");
  for (ServerView& server : cluster.servers)
    server.rack = fmt::format("rack-{}", (server.id.value - 1) % 3);  // three chunks in each
  cluster.lose({0, 3});                                               // both of rack 0
  for (uint64_t id = 1; id <= 20; ++id) {
    cluster.stripe.id = StripeId{id};  // others are looked at first
    const auto plan = cluster.plan();
    ASSERT_TRUE(plan) << plan.error().message();
    for (const RepairTarget& target : plan->targets)
      EXPECT_EQ(cluster.server(target.destination.value).rack, "rack-0");
  }
}

TEST(Planner, SlowHelpersAreAvoidedOrGetASmallShareOfTheSlices) {
  PlannedCluster cluster("rs-12-4-1024k");
  cluster.lose({0});
  for (uint64_t id : {3, 6, 9})
    cluster.slow(id, 25'000'000);
  RepairPlan plan = *cluster.plan();
  EXPECT_EQ(plan.trees, 1u) << "twelve fast ones are enough";
  for (ServerId helper : plan.helpers)
    EXPECT_TRUE(helper.value != 3 && helper.value != 6 && helper.value != 9);

  cluster.slow(12, 25'000'000);
  plan = *cluster.plan();
  EXPECT_EQ(plan.choice.shape, Shape::WEIGHTED);
  EXPECT_EQ(plan.trees, 4u);
  EXPECT_EQ(plan.helpers.size(), 15u);
  check_algebra(cluster, plan, plan.request.children());
  EXPECT_LE(plan.choice.seconds, 1.15 * kChunkBytes / 100e6)
      << "one of them alone would take four times that";
}

TEST(Planner, BusyAndSuspectServersGetNoShareWhenOthersSuffice) {
  PlannedCluster cluster("rs-6-3-1024k");
  cluster.lose({0});
  cluster.slow(2, 25'000'000);
  cluster.suspects = {ServerId{3}};
  cluster.server(4).busy = 1;
  const RepairPlan plan = *cluster.plan();
  for (ServerId helper : plan.helpers)
    EXPECT_TRUE(helper.value != 3 && helper.value != 4) << helper.value;
}

TEST(Planner, ALocalCodeUsesTheLocalGroupUnlessAMemberFailedBefore) {
  PlannedCluster cluster("lrc-12-2-2-1024k");
  cluster.lose({1});
  RepairPlan plan = *cluster.plan();
  EXPECT_EQ(plan.helpers.size(), 6u);
  cluster.excluded = {ServerId{4}};
  plan = *cluster.plan();
  EXPECT_EQ(std::count(plan.helpers.begin(), plan.helpers.end(), ServerId{4}), 0);
  check_algebra(cluster, plan, plan.request.children());
}

TEST(Planner, RotatedRowsAreSentAsTheyAreWhereThatIsLess) {
  PlannedCluster cluster("rrs-12-4-1024k");
  cluster.lose({2});
  const RepairPlan plan = *cluster.plan(Shape::STAR);
  size_t sent = 0;
  for (const proto::RepairNode& node : plan.request.children())
    sent += node.sums();
  EXPECT_LT(sent, 12u * 4) << "fewer sub-chunks than whole chunks have";
  EXPECT_EQ(plan.request.rows(), 4u);
  EXPECT_EQ(plan.request.cell_bytes(), uint64_t{1} << 20);
}

TEST(Planner, EmptyChunksNeedNoServer) {
  PlannedCluster cluster("rs-6-3-1024k");
  cluster.lose({0});
  for (uint32_t i : {1u, 2u, 3u})
    cluster.stripe.chunks[i] = {.index = i};
  RepairPlan plan = *cluster.plan();
  EXPECT_EQ(plan.helpers.size(), 3u);
}

TEST(Planner, WishedHelpersKeepTheirOrder) {
  PlannedCluster cluster("rs-6-3-1024k");
  cluster.lose({0});
  const PlanWishes wishes{.shape = Shape::CHAIN, .destination = ServerId{12}, .helpers = {8, 2, 6, 1, 3, 7}};
  const RepairPlan plan = *make_plan(cluster.input(), wishes,
                                     {.link = {}, .view = cluster.view, .expiry = {}, .id = RepairId{9}});
  EXPECT_EQ(plan.targets.front().destination, ServerId{12});
  const Nodes* nodes = &plan.request.children();
  for (uint32_t index : wishes.helpers) {
    ASSERT_EQ(nodes->size(), 1);
    EXPECT_EQ((*nodes)[0].index(), index);
    nodes = &(*nodes)[0].children();
  }
}

TEST(Planner, AServerThatIsAboutToDeleteAnOlderCopyIsNoDestination) {
  PlannedCluster cluster("rs-6-3-1024k");
  cluster.lose({0});
  const ServerId first = cluster.plan()->targets.front().destination;
  cluster.view.pending.insert({{StripeId{5}, 0}, first});
  EXPECT_NE(cluster.plan()->targets.front().destination, first);
}

TEST(Planner, AMoveCopiesTheChunkFromItsServer) {
  PlannedCluster cluster("rrs-6-3-1024k");
  cluster.lost = {3};
  cluster.server(4).draining = true;
  const RepairPlan plan = *make_move_plan(
      cluster.input(), {}, {.link = {}, .view = cluster.view, .expiry = {}, .id = RepairId{9}});
  EXPECT_EQ(plan.kind, proto::RepairRecord::MOVE);
  EXPECT_EQ(plan.helpers, std::vector<ServerId>{ServerId{4}});
  EXPECT_GT(plan.targets.front().destination.value, 9u);
  ASSERT_EQ(plan.request.children_size(), 1);
  EXPECT_EQ(plan.request.children(0).coefficients(), std::string(1, '\1'));
  EXPECT_EQ(plan.request.crc(), 1003u);
  EXPECT_LE(plan.request.rows(), 1u) << "a copy knows no rows";
  const auto wished = make_move_plan(cluster.input(), {.destination = ServerId{15}},
                                     {.link = {}, .view = cluster.view, .expiry = {}, .id = RepairId{9}});
  EXPECT_EQ(wished->targets.front().destination, ServerId{15});
  cluster.server(4).alive = false;
  EXPECT_EQ(
      make_move_plan(cluster.input(), {}, {.link = {}, .view = cluster.view, .expiry = {}, .id = RepairId{9}})
          .error()
          .code(),
      Code::kLimitExceeded);
}

TEST(Planner, AReadGetsTheBlocksOfItsRange) {
  PlannedCluster cluster("rs-12-4-1024k");
  cluster.lose({5});
  const auto read = [&](uint64_t offset, uint64_t length) {
    return make_read_plan(cluster.input(), {}, {offset, length},
                          {.link = {}, .view = cluster.view, .expiry = {}, .id = RepairId{9}});
  };
  const RepairPlan plan = *read(100'000, 70'000);
  EXPECT_EQ(plan.kind, proto::RepairRecord::READ);
  EXPECT_EQ(plan.sum_plan.offset(), 65'536u);
  EXPECT_EQ(plan.sum_plan.length(), 2u * 65'536);
  EXPECT_EQ(plan.targets.front().destination, ServerId{});
  check_algebra(cluster, plan, plan.sum_plan.children());
  EXPECT_EQ(read(kChunkBytes - 1, 1)->sum_plan.length(), 65'536u);
  EXPECT_EQ(read(kChunkBytes, 1).error().code(), Code::kInvalidArgument);
  EXPECT_EQ(read(1, ~uint64_t{0}).error().code(), Code::kInvalidArgument);
}

TEST(Planner, AReadOfARotatedCodeGetsWholeCells) {
  PlannedCluster cluster("rrs-6-3-1024k");
  cluster.lose({2});
  const RepairPlan plan =
      *make_read_plan(cluster.input(), {}, {(3 << 20) + 5, 1 << 20},
                      {.link = {}, .view = cluster.view, .expiry = {}, .id = RepairId{9}});
  EXPECT_EQ(plan.sum_plan.rows(), 4u);
  EXPECT_EQ(plan.sum_plan.offset(), 3u * (256 << 10));
  EXPECT_EQ(plan.sum_plan.length(), 2u * (256 << 10));
  EXPECT_EQ(plan.sum_plan.slice_bytes() % (256 << 10), 0u) << "slices are whole sub-cells";
  check_algebra(cluster, plan, plan.sum_plan.children());
}

TEST(Planner, TheEstimateIsNearTheBoundOnUnequalLinks) {
  for (const char* name : {"rs-6-3-1024k", "rs-8-3-1024k", "rs-10-4-1024k", "rs-12-4-1024k"}) {
    PlannedCluster cluster(name);
    cluster.lose({0});
    for (uint64_t id = 2; id <= cluster.policy.chunks(); id += 3)
      cluster.slow(id, 25'000'000);
    const RepairPlan plan = *cluster.plan();
    EXPECT_LE(plan.choice.seconds, 1.15 * plan.choice.bound_seconds) << name;
    EXPECT_GE(plan.choice.seconds, plan.choice.bound_seconds) << name;
  }
}

TEST(Planner, SeveralChunksAreNearTheirFloorToo) {
  PlannedCluster cluster("rs-12-4-1024k");
  cluster.lose({0, 1});
  const RepairPlan plan = *cluster.plan();
  EXPECT_LE(plan.choice.seconds, 1.1 * 2 * kChunkBytes / 100e6) << "two sums over every link";
}

TEST(Planner, ReadsDoNotWaitForSlots) {
  PlannedCluster cluster("rs-6-3-1024k");
  cluster.lose({0});
  for (uint64_t id = 2; id <= 9; ++id) {
    const ServerId helper{id};
    for (int i = 0; i < 2; ++i)
      cluster.slots.acquire({&helper, 1}, ServerId{12 + id % 4}, 0);
    cluster.slots.release({}, ServerId{12 + id % 4}, 0);
    cluster.slots.release({}, ServerId{12 + id % 4}, 0);
  }
  EXPECT_EQ(cluster.plan().error().code(), Code::kLimitExceeded);
  EXPECT_TRUE(make_read_plan(cluster.input(), {}, {0, 1},
                             {.link = {}, .view = cluster.view, .expiry = {}, .id = RepairId{9}}));
}

TEST(Planner, TooFewChunksAreUnavailable) {
  for (const char* name : {"rs-6-3-1024k", "lrc-12-2-2-1024k", "rrs-6-3-1024k"}) {
    PlannedCluster cluster(name);
    std::vector<uint32_t> lost;
    for (uint32_t i = 0; i <= cluster.policy.m; ++i)
      lost.push_back(i);
    cluster.lose(lost);
    EXPECT_EQ(cluster.plan().error().code(), Code::kUnavailable) << name;
  }
}

TEST(Planner, AnotherDestinationIsBlamedByName) {
  PlannedCluster cluster("rs-6-3-1024k");
  cluster.lose({0, 1});
  const RepairPlan plan = *cluster.plan();
  const ServerId other = plan.targets[1].destination;
  const Status status = Status{Code::kNoSpace, "store chunk: no space"}.blame(other);
  EXPECT_EQ(find_blame(status, plan).other_destination, other);
  EXPECT_FALSE(find_blame(status, plan).destination);
}

TEST(Planner, BlamesWhoeverIsNearestToTheCauseWhateverTheTextSays) {
  PlannedCluster cluster("rs-6-3-1024k");
  cluster.lose({0});
  const RepairPlan plan = *cluster.plan();
  // The servers above pass the error on, each with its own name in the text and as a culprit of last resort.
  const Status status = Status{Code::kUnavailable, fmt::format("server {}: refused", plan.helpers[0])}
                            .blame(plan.helpers[2])
                            .with_context("server 1")
                            .blame(plan.helpers[1]);
  EXPECT_EQ(find_blame(status, plan).helper, plan.helpers[2]);
  EXPECT_EQ(find_blame(status, plan).helper_chunk, plan.helper_chunks[2]);
  const Status nobody{Code::kUnavailable, fmt::format("server {}: refused", plan.helpers[0])};
  EXPECT_FALSE(find_blame(nobody, plan).helper) << "a text names nobody";
}

}  // namespace
}  // namespace kintsugi::repair_manager
