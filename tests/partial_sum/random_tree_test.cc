// Any tree shape, matrix, rows, slices, masks and number of lost chunks: the same bytes as computing them at once.
#include "tests/chunkserver/tree_rig.h"
#include "tests/expect_ok.h"

namespace kintsugi::chunkserver {
namespace {

constexpr uint64_t kUnsliced = 1ull << 30;

uint64_t random_slice(std::mt19937_64& random) {
  const std::array<uint64_t, 6> slices{1, 64 << 10, 128 << 10, 192 << 10, 512 << 10, kUnsliced};
  return slices[random() % slices.size()];
}

uint64_t effective_slice(const Equation& equation, uint64_t length, uint64_t slice) {
  proto::PartialSumRequest request;
  request.set_length(length);
  request.set_slice_bytes(slice);
  request.set_rows(equation.rows);
  request.set_cell_bytes(equation.cell_bytes);
  auto range = partial_sum::SumRange::make(request, 1);
  KINTSUGI_ASSERT(range);
  return range->slice_bytes;
}

void collect(const proto::RepairNode& node, std::map<uint64_t, const proto::RepairNode*>& nodes) {
  nodes[node.server_id()] = &node;
  for (const auto& child : node.children())
    collect(child, nodes);
}

/// Every slice is carried by one of some random forests, each with all helpers.
void add_masked_trees(TreeRig& rig, const Equation& equation, proto::RepairChunkRequest& request,
                      std::mt19937_64& random) {
  const uint32_t period = 2 + random() % 6;
  std::vector<uint64_t> masks(2 + random() % 3);
  for (uint32_t bit = 0; bit < period; ++bit)
    masks[random() % masks.size()] |= uint64_t{1} << bit;
  for (uint64_t mask : masks) {
    if (mask == 0) continue;
    for (proto::RepairNode& node : rig.random_forest(equation, equation.rows, random)) {
      node.set_slice_period(period);
      node.set_slice_mask(mask);
      *request.add_children() = node;
    }
  }
}

/// Destinations of all but the first lost chunk in a chain, the helpers below the last one.
void add_destinations(TreeRig& rig, const Equation& equation, const std::vector<std::vector<std::byte>>& lost,
                      proto::RepairChunkRequest& request, std::mt19937_64& random) {
  std::vector<proto::RepairNode> below = rig.random_forest(equation, equation.sums(), random);
  for (uint32_t number = lost.size(); --number > 0;) {
    proto::RepairNode node = rig.destination(equation, number, lost[number]);
    for (proto::RepairNode& child : below)
      *node.add_children() = std::move(child);
    below.assign(1, node);
  }
  for (proto::RepairNode& node : below)
    *request.add_children() = node;
}

void set_random_links(TreeRig& rig, std::mt19937_64& random) {
  for (size_t i = 0; i < rig.servers.size(); ++i) {
    const uint64_t rate = random() % 2 == 0 ? 0 : 1'000'000 + random() % 50'000'000;
    rig.simulation.network().set_link(rig.host(i), rate, rate);
  }
}

void check_memory(const Equation& equation, const proto::RepairChunkRequest& request,
                  const proto::RepairChunkResponse& response) {
  std::map<uint64_t, const proto::RepairNode*> nodes;
  for (const auto& child : request.children())
    collect(child, nodes);
  const uint64_t length = erasure::sub_chunk_bytes(request.length(), equation.rows, equation.cell_bytes);
  const uint64_t slice = effective_slice(equation, length, request.slice_bytes());
  // With masks a server is a node of several trees, and its times do not tell of which.
  const bool masked = request.children(0).slice_period() != 0;
  for (int i = 1; i < response.servers_size() && !masked; ++i) {
    const auto& server = response.servers(i);
    const proto::RepairNode& node = *nodes.at(server.server_id());
    EXPECT_LE(server.timing().peak_bytes(), TreeRig::memory_bound(node, equation.rows, slice))
        << "of a node with " << node.children_size() << " children, slice " << slice;
  }
  if (request.staggered()) return;
  proto::RepairNode root;
  root.set_sums(equation.rows);
  for (const auto& child : request.children())
    *root.add_children() = child;
  EXPECT_LE(response.servers(0).timing().peak_bytes(), TreeRig::memory_bound(root, equation.rows, slice));
}

TEST(RandomTree, RebuildsWhatTheMatrixSays) {
  const uint64_t seed = simulation::Simulation::seed_from_environment(1);
  TreeRig rig(seed);
  std::mt19937_64 random(seed);
  for (uint64_t stripe = 1; stripe <= 60; ++stripe) {
    const Equation equation = random_equation(random, stripe);
    const auto sums = equation.expected_sums();
    std::vector<std::vector<std::byte>> lost;
    for (uint32_t i = 0; i < equation.lost_lengths.size(); ++i)
      lost.push_back(equation.lost(i, sums));
    rig.store_helpers(equation);
    set_random_links(rig, random);
    proto::RepairChunkRequest request = rig.request_for(equation, lost);
    request.set_slice_bytes(random_slice(random));
    if (lost.size() > 1) {
      add_destinations(rig, equation, lost, request, random);
    } else if (random() % 2 == 0) {
      add_masked_trees(rig, equation, request, random);
    } else {
      for (const proto::RepairNode& node : rig.random_forest(equation, equation.rows, random))
        *request.add_children() = node;
      request.set_staggered(random() % 3 == 0);
    }
    SCOPED_TRACE(fmt::format("seed {} stripe {} rows {} slice {} lost {} children {} staggered {}", seed,
                             stripe, equation.rows, request.slice_bytes(), lost.size(),
                             request.children_size(), request.staggered()));
    auto repaired = rig.repair(Equation::kFirstLost, request);
    ASSERT_TRUE(repaired) << repaired.error();
    check_memory(equation, request, *repaired);
    for (uint32_t i = 0; i < lost.size(); ++i) {
      auto bytes = rig.get(Equation::kFirstLost + i, {StripeId(stripe), Equation::kFirstLost + i});
      ASSERT_TRUE(bytes) << bytes.error();
      ASSERT_TRUE(*bytes == lost[i]) << "lost chunk " << i;
    }
  }
}

/// A root that only keeps what it gets.
class Collector final : public partial_sum::SumSink {
 public:
  explicit Collector(const partial_sum::SumRange& range)
      : offset_(range.offset), sums(range.sums, std::vector<std::byte>()) {}
  asio::awaitable<Status> put(uint64_t offset, std::span<const std::span<std::byte>> parts,
                              uint64_t) override {
    EXPECT_EQ(offset, offset_ + sums[0].size());
    for (size_t i = 0; i < sums.size(); ++i)
      sums[i].insert(sums[i].end(), parts[i].begin(), parts[i].end());
    co_return Status{};
  }
  asio::awaitable<Status> idle() override { co_return Status{}; }

 private:
  uint64_t offset_;

 public:
  std::vector<std::vector<std::byte>> sums;
};

TEST(RandomTree, GivesAClientAnyRangeOfTheSums) {
  const uint64_t seed = simulation::Simulation::seed_from_environment(2);
  TreeRig rig(seed);
  std::mt19937_64 random(seed);
  for (uint64_t stripe = 1; stripe <= 40; ++stripe) {
    const Equation equation = random_equation(random, stripe);
    rig.store_helpers(equation);
    const uint64_t unit = equation.rows > 1 ? equation.cell_bytes / equation.rows : kBlockBytes;
    const uint64_t longest = equation.sub_chunk_bytes();
    proto::SumPlan plan;
    plan.set_stripe_id(stripe);
    plan.set_offset(random() % (longest / unit + 1) * unit);
    plan.set_length(random() % (longest - plan.offset() + 1));
    plan.set_slice_bytes(random_slice(random));
    plan.set_rows(equation.rows);
    plan.set_cell_bytes(equation.cell_bytes);
    for (const proto::RepairNode& node : rig.random_forest(equation, equation.sums(), random))
      *plan.add_children() = node;
    SCOPED_TRACE(fmt::format("seed {} stripe {} rows {} range {}+{} slice {}", seed, stripe, equation.rows,
                             plan.offset(), plan.length(), plan.slice_bytes()));
    const proto::PartialSumRequest request = partial_sum::request_of(plan);
    auto range = partial_sum::SumRange::make(request, equation.sums());
    ASSERT_TRUE(range) << range.error();
    partial_sum::SumReceiver receiver(rig.client_runtime, rig.client, *range, request, plan.children());
    Collector collector(*range);
    Status status = rig.simulation.run(receiver.run(Context{}, collector));
    KINTSUGI_ASSERT_OK(status);
    const auto expected = equation.expected_sums();
    for (uint32_t sum = 0; sum < equation.sums(); ++sum) {
      const auto begin = expected[sum].begin() + plan.offset();
      ASSERT_TRUE(
          std::equal(begin, begin + plan.length(), collector.sums[sum].begin(), collector.sums[sum].end()))
          << "sum " << sum;
    }
  }
}

}  // namespace
}  // namespace kintsugi::chunkserver
