/// A cluster of any size whose links are a fluid: the repair manager's view of it, and repair trees as flows.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/runtime/event.h"
#include "erasure/policy.h"
#include "repair_manager/trees/cost_model.h"
#include "repair_manager/view/cluster_view.h"
#include "tests/benchmarks/placement_bound.h"
#include "tests/simulation/runtime/fluid_network.h"
#include "tests/simulation/runtime/simulation.h"

namespace kintsugi::repair_manager {

struct FluidSettings {
  uint64_t servers = 83;
  std::string policy = "rs-12-4-1024k";
  uint64_t chunk_bytes = 64 << 20;
  double rate = 1.4e9 / 8;    ///< bytes/s of each link, each way
  uint32_t slow_percent = 0;  ///< of the servers: their links have a quarter of it
  uint64_t lost = 1;
};

/// Server 1 is dead, with `lost` chunks of as many stripes, whose other chunks are on random distinct
/// servers. A repair's tree becomes flows:
///   sliced     one flow over all its hops, as fast as the slowest; depth - 1 slices, or what
///              is forwarded of them at once, fill and drain it
///   unsliced   a flow a hop, which begins when the sender has all it adds: the timesteps of the text
///   star       a flow a helper
/// Each hop costs its latency on the way down and up, each slice its overhead. Disks, CPUs and switches are
/// not modelled.
class FluidCluster final : public ClusterView {
 public:
  FluidCluster(simulation::Simulation& simulation, const FluidSettings& settings)
      : simulation_(simulation), settings_(settings), network_(simulation.clock()) {
    for (uint64_t id = 1; id <= settings.servers; ++id) {
      const bool slow = (id * 7919) % 100 < settings.slow_percent;
      const double rate = slow ? settings.rate / 4 : settings.rate;
      servers_.push_back({.id = ServerId{id},
                          .address = {fmt::format("s{}", id), 7000},
                          .rack = fmt::format("r{}", id),
                          .alive = id != kDead.value,
                          .free_bytes = uint64_t{1} << 44,
                          .up_bytes_per_second = static_cast<uint64_t>(rate),
                          .down_bytes_per_second = static_cast<uint64_t>(rate)});
      network_.add_link(rate);  // up: 2 * (id - 1)
      network_.add_link(rate);  // down: 2 * (id - 1) + 1
    }
    const erasure::Policy policy = *erasure::Policy::parse(settings.policy);
    for (uint64_t s = 1; s <= settings.lost; ++s)
      stripes_.emplace(StripeId{s}, random_stripe(StripeId{s}, policy));
  }

  static constexpr ServerId kDead{1};

  std::vector<ServerView> servers() const override { return servers_; }
  std::optional<StripeView> stripe(StripeId id) const override { return stripes_.at(id); }
  bool deletion_pending(ChunkId, ServerId) const override { return false; }
  std::string capability(ChunkId, uint32_t, WallTime) const override { return std::string(44, 'c'); }
  void report_lost(ChunkId, ServerId, const std::string&) override {}

  asio::awaitable<Status> commit_repair(Context, ChunkId chunk, ServerId, ServerId server) override {
    ChunkView& placed = stripes_.at(chunk.stripe).chunks[chunk.index];
    placed.server = server;
    placed.available = true;
    ++committed;
    co_return Status{};
  }

  asio::awaitable<Result<proto::RepairChunkResponse>> execute(Context, runtime::Endpoint destination,
                                                              proto::RepairChunkRequest request) override {
    runtime::Event ended(simulation_.executor(), simulation_.clock());
    size_t open = 1;
    const auto done = [&] {
      if (--open == 0) ended.notify_all();
    };
    const uint32_t root = static_cast<uint32_t>(std::stoul(destination.host.substr(1)) - 1);
    begin(request, root, open, done);
    done();
    while (open > 0)
      co_await ended.wait();
    co_return proto::RepairChunkResponse{};
  }

  /// A transfer of one chunk between two servers, by position.
  void send(uint32_t from, uint32_t to, double bytes, std::function<void()> arrived) {
    after(2 * link_.hop_latency_seconds, [this, from, to, bytes, arrived = std::move(arrived)] {
      network_.start({up(from, 1), down(to, 1)}, bytes, settings_.rate, arrived);
    });
  }
  /// max(k * lost * C / what all links carry, C / B)
  double bound_seconds() const {
    double total = 0;
    for (const ServerView& server : servers_)
      if (server.alive) total += static_cast<double>(server.up_bytes_per_second);
    const double moved = static_cast<double>(erasure::Policy::parse(settings_.policy)->k * lost()) *
                         static_cast<double>(settings_.chunk_bytes);
    return std::max(moved / total, static_cast<double>(settings_.chunk_bytes) / settings_.rate);
  }

  /// The time that the lost chunks' stripes allow at best: placement_bound.h.
  double placement_bound_seconds() const {
    std::vector<PlacementLink> links;
    for (const ServerView& server : servers_)
      links.push_back(server.alive ? PlacementLink{static_cast<double>(server.up_bytes_per_second),
                                                   static_cast<double>(server.down_bytes_per_second)}
                                   : PlacementLink{});
    std::vector<PlacementBound::Holders> holders;
    for (const auto& [id, stripe] : stripes_) {
      PlacementBound::Holders& mine = holders.emplace_back();
      for (const ChunkView& chunk : stripe.chunks)
        if (chunk.available) mine.push_back(static_cast<uint32_t>(chunk.server.value - 1));
    }
    const uint32_t k = erasure::Policy::parse(settings_.policy)->k;
    return PlacementBound(holders, k, static_cast<double>(settings_.chunk_bytes), links).seconds();
  }

  size_t lost() const { return stripes_.size(); }
  const simulation::FluidNetwork& network() const { return network_; }
  std::vector<ChunkId> lost_chunks() const {
    std::vector<ChunkId> chunks;
    for (const auto& [id, stripe] : stripes_)
      for (const ChunkView& chunk : stripe.chunks)
        if (chunk.server == kDead) chunks.push_back({id, chunk.index});
    return chunks;
  }

  size_t committed = 0;

 private:
  using Nodes = google::protobuf::RepeatedPtrField<proto::RepairNode>;
  using Done = std::function<void()>;
  using Share = simulation::FluidNetwork::Share;

  StripeView random_stripe(StripeId id, const erasure::Policy& policy) {
    StripeView stripe{.id = id, .policy = settings_.policy, .length = policy.k * settings_.chunk_bytes};
    std::vector<uint64_t> holders{kDead.value};
    while (holders.size() < policy.chunks()) {
      const uint64_t server = simulation_.random().below(settings_.servers) + 1;
      if (std::ranges::find(holders, server) == holders.end()) holders.push_back(server);
    }
    std::swap(holders[0], holders[simulation_.random().below(holders.size())]);
    for (uint32_t i = 0; i < policy.chunks(); ++i)
      stripe.chunks.push_back({.index = i,
                               .server = ServerId{holders[i]},
                               .length = settings_.chunk_bytes,
                               .crc = i,
                               .available = ServerId{holders[i]} != kDead});
    return stripe;
  }

  static uint32_t position(const proto::RepairNode& node) {
    return static_cast<uint32_t>(node.server_id() - 1);
  }
  Share up(uint32_t server, double weight) const { return {2 * server, weight}; }
  Share down(uint32_t server, double weight) const { return {2 * server + 1, weight}; }
  /// Which of the slices this flow carries.
  static double share_of(const proto::RepairNode& tree) {
    if (tree.slice_period() == 0) return 1;
    return static_cast<double>(std::popcount(tree.slice_mask())) / tree.slice_period();
  }
  static uint32_t depth(const Nodes& nodes) {
    uint32_t deepest = 0;
    for (const proto::RepairNode& node : nodes)
      deepest = std::max(deepest, 1 + depth(node.children()));
    return deepest;
  }
  static void edges(const Nodes& nodes, uint32_t parent, std::vector<std::pair<uint32_t, uint32_t>>& out) {
    for (const proto::RepairNode& node : nodes) {
      out.emplace_back(position(node), parent);
      edges(node.children(), position(node), out);
    }
  }
  void after(double seconds, std::function<void()> what) {
    const std::chrono::duration<double> delay{seconds};
    simulation_.clock().call_at(simulation_.now() + std::chrono::duration_cast<Duration>(delay),
                                std::move(what));
  }

  void begin(const proto::RepairChunkRequest& request, uint32_t root, size_t& open, const Done& done);
  void begin_pipeline(const Nodes& trees, uint32_t root, double bytes, double slice, size_t& open,
                      const Done& done);
  void begin_store_and_forward(const Nodes& nodes, uint32_t parent, double bytes, size_t& open,
                               const Done& done, const std::shared_ptr<std::pair<size_t, Done>>& sent);

  simulation::Simulation& simulation_;
  const FluidSettings settings_;
  const LinkModel link_;
  std::vector<ServerView> servers_;
  std::map<StripeId, StripeView> stripes_;
  simulation::FluidNetwork network_;
};

inline void FluidCluster::begin(const proto::RepairChunkRequest& request, uint32_t root, size_t& open,
                                const Done& done) {
  const auto bytes = static_cast<double>(request.length());
  const auto slice = static_cast<double>(request.slice_bytes());
  const bool star = std::ranges::all_of(request.children(), [](auto& n) { return n.children().empty(); });
  if (star || slice >= bytes) {
    begin_store_and_forward(request.children(), root, bytes, open, done, nullptr);
    return;
  }
  begin_pipeline(request.children(), root, bytes, slice, open, done);
}

/// All hops at one rate, those of trees that carry some of the slices at their share of it: slices are
/// awaited in order. Filling and draining takes (depth - 1) of a tree's slices more, or of what is
/// forwarded of them at once; meanwhile a part of the links idles.
inline void FluidCluster::begin_pipeline(const Nodes& trees, uint32_t root, double bytes, double slice,
                                         size_t& open, const Done& done) {
  const double hops = depth(trees);
  double fill = 0;
  std::map<uint32_t, double> loads;  // of links, in sums of the whole chunk
  for (const proto::RepairNode& child : trees) {
    const double share = share_of(child);
    Nodes tree;
    *tree.Add() = child;
    fill = std::max(fill, (depth(tree) - 1) * std::min(slice, double{kForwardBytes}) / share);
    std::vector<std::pair<uint32_t, uint32_t>> all;
    edges(tree, root, all);
    for (const auto& [from, to] : all) {
      loads[2 * from] += share;
      loads[2 * to + 1] += share;
    }
  }
  const double work = bytes + fill;
  double limit = settings_.rate;
  std::vector<Share> shares;
  for (const auto& [link, load] : loads) {
    shares.push_back({link, load * bytes / work});
    limit = std::min(limit, static_cast<double>(servers_[link / 2].up_bytes_per_second) / load);
  }
  const double slices = std::ceil(bytes / slice) + hops - 1;
  const double delay = 2 * hops * link_.hop_latency_seconds + slices * link_.slice_overhead_seconds;
  ++open;
  after(delay,
        [this, shares = std::move(shares), work, limit, done] { network_.start(shares, work, limit, done); });
}

/// Each sends its sum when it has those of all its children, whole: the timesteps of the text. In a star
/// nobody has children.
inline void FluidCluster::begin_store_and_forward(const Nodes& nodes, uint32_t parent, double bytes,
                                                  size_t& open, const Done& done,
                                                  const std::shared_ptr<std::pair<size_t, Done>>& sent) {
  for (const proto::RepairNode& node : nodes) {
    const uint32_t from = position(node);
    if (sent == nullptr) ++open;
    const Done arrived = [sent, done] {
      if (sent == nullptr) {
        done();
      } else if (--sent->first == 0) {
        sent->second();
      }
    };
    const Done send_up = [this, from, parent, bytes, arrived] { send(from, parent, bytes, arrived); };
    if (node.children().empty()) {
      send_up();
      continue;
    }
    const auto below = std::make_shared<std::pair<size_t, Done>>(node.children_size(), send_up);
    begin_store_and_forward(node.children(), from, bytes, open, done, below);
  }
}

}  // namespace kintsugi::repair_manager
