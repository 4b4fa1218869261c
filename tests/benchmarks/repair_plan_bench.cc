// How many repair plans a second one repair manager makes: helpers, destination, coefficients, tree and
// request. Mitra 2016, section 4.7.6, reports 189/s for RS(6,3) and 115/s for RS(12,4).
#include <benchmark/benchmark.h>

#include "common/rpc/secret.h"
#include "erasure/policy.h"
#include "repair_manager/plan/make_plan.h"

namespace kintsugi::repair_manager {
namespace {

class View final : public ClusterView {
 public:
  std::vector<ServerView> servers() const override { return {}; }
  std::optional<StripeView> stripe(StripeId) const override { return std::nullopt; }
  bool deletion_pending(ChunkId, ServerId) const override { return false; }
  std::string capability(ChunkId chunk, uint32_t operations, WallTime expiry) const override {
    return rpc::make_capability(secret_, chunk, operations, expiry);
  }
  asio::awaitable<Result<proto::RepairChunkResponse>> execute(Context, runtime::Endpoint,
                                                              proto::RepairChunkRequest) override {
    co_return Status{Code::kInternal, "plans are only made here"};
  }
  asio::awaitable<Status> commit_repair(Context, ChunkId, ServerId, ServerId) override { co_return Status{}; }
  void report_lost(ChunkId, ServerId, const std::string&) override {}

 private:
  rpc::Secret secret_;
};

/// 1 Gbit/s; of every `slow`-th server a quarter.
uint64_t rate_of(uint64_t id, uint64_t slow) {
  return slow > 0 && id % slow == 0 ? 31'250'000 : 125'000'000;
}

void plan_repairs(benchmark::State& state) {
  const auto server_count = static_cast<uint64_t>(state.range(0));
  const erasure::Policy policy{.k = static_cast<uint32_t>(state.range(1)),
                               .m = static_cast<uint32_t>(state.range(2))};
  const auto slow = static_cast<uint64_t>(state.range(3));
  std::vector<ServerView> servers;
  for (uint64_t id = 1; id <= server_count; ++id)
    servers.push_back({.id = ServerId{id},
                       .address = {fmt::format("10.0.{}.{}", id / 250, id % 250), 7000},
                       .rack = fmt::format("rack-{}", id % 40),
                       .alive = true,
                       .free_bytes = uint64_t{1} << 40,
                       .up_bytes_per_second = rate_of(id, slow),
                       .down_bytes_per_second = rate_of(id, slow)});
  const ServerTable table(std::move(servers));
  std::vector<StripeView> stripes;
  for (uint64_t id = 1; id <= 1000; ++id) {
    StripeView stripe{.id = StripeId{id}, .policy = policy.name()};
    for (uint32_t i = 0; i < policy.chunks(); ++i)
      stripe.chunks.push_back({.index = i,
                               .server = ServerId{(id * 7 + i * 13) % server_count + 1},
                               .length = 64 << 20,
                               .available = i != id % policy.chunks()});
    stripes.push_back(std::move(stripe));
  }
  const View view;
  SlotTable slots(4);
  const std::set<ServerId> suspects;
  uint64_t next = 0;
  for (auto _ : state) {
    const StripeView& stripe = stripes[next++ % stripes.size()];
    const SelectionInput input{.stripe = stripe,
                               .lost = {static_cast<uint32_t>(stripe.id.value % policy.chunks())},
                               .policy = policy,
                               .servers = table,
                               .slots = slots,
                               .suspects = suspects};
    const auto plan = make_plan(input, {}, {.link = {}, .view = view, .expiry = {}, .id = RepairId{next}});
    if (!plan) state.SkipWithError(plan.error().message().c_str());
    benchmark::DoNotOptimize(plan->request.SerializeAsString());
    slots.acquire(plan->helpers, plan->targets.front().destination, plan->targets.front().bytes);
    slots.release(plan->helpers, plan->targets.front().destination, plan->targets.front().bytes);
  }
  state.counters["plans"] =
      benchmark::Counter(static_cast<double>(state.iterations()), benchmark::Counter::kIsRate);
}

BENCHMARK(plan_repairs)
    ->ArgNames({"servers", "k", "m", "slow_one_in"})
    ->Args({1000, 6, 3, 0})
    ->Args({1000, 12, 4, 0})
    ->Args({10000, 6, 3, 0})
    ->Args({10000, 12, 4, 0})
    ->Args({1000, 12, 4, 4});

/// The picture of the servers, which is made anew several times a second while repairs run.
void build_server_table(benchmark::State& state) {
  std::vector<ServerView> servers;
  for (int64_t id = 1; id <= state.range(0); ++id)
    servers.push_back({.id = ServerId{static_cast<uint64_t>(id)},
                       .address = {fmt::format("10.0.{}.{}", id / 250, id % 250), 7000},
                       .rack = fmt::format("rack-{}", id % 40),
                       .alive = true});
  for (auto _ : state)
    benchmark::DoNotOptimize(ServerTable(servers));
}

BENCHMARK(build_server_table)->ArgName("servers")->Arg(1000)->Arg(10000);

}  // namespace
}  // namespace kintsugi::repair_manager

BENCHMARK_MAIN();
