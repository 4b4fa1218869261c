#include "repair_manager/what_if/fluid_cluster.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "common/base/assert.h"

namespace kintsugi::what_if {
namespace {

using proto::RepairNode;
using repair_manager::ChunkView;
using repair_manager::ServerView;
using repair_manager::StripeView;
using Nodes = google::protobuf::RepeatedPtrField<RepairNode>;

uint32_t position(uint64_t server_id) {
  return static_cast<uint32_t>(server_id - 1);
}

/// Which of the slices the node's tree carries.
double share_of(const RepairNode& node, double of_parent) {
  if (node.slice_period() == 0) return of_parent;
  return static_cast<double>(std::popcount(node.slice_mask())) / node.slice_period();
}

/// The sums that a node sends to its parent.
uint32_t sums_of(const RepairNode& node) {
  return std::max(1u, node.outputs_size() > 0 ? static_cast<uint32_t>(node.outputs_size()) : node.sums());
}

uint32_t depth_of(const Nodes& nodes) {
  uint32_t deepest = 0;
  for (const RepairNode& node : nodes)
    deepest = std::max(deepest, 1 + depth_of(node.children()));
  return deepest;
}

}  // namespace

FluidCluster::FluidCluster(asio::any_io_executor executor, runtime::Clock& clock, FluidState state)
    : executor_(std::move(executor)),
      clock_(clock),
      state_(std::move(state)),
      network_(clock, state_.network) {
  for (size_t i = 0; i < state_.servers.size(); ++i) {
    ServerView& server = state_.servers[i];
    KINTSUGI_ASSERT(server.id.value == i + 1);
    server.address = {fmt::format("s{}", i + 1), 7000};
  }
  table_ = repair_manager::ServerTable(state_.servers);
  for (const ServerView& server : state_.servers) {
    const auto rate = table_.link(server, state_.link.bytes_per_second);
    network_.add_link(rate.up);
    network_.add_link(rate.down);
  }
  if (state_.rack_rate > 0) {
    rack_links_ = static_cast<uint32_t>(network_.links());
    for (size_t i = 0; i < 2 * table_.racks(); ++i)
      network_.add_link(state_.rack_rate);
  }
  loads_.resize(network_.links());
  began_.resize(state_.stripes.size());
}

std::string FluidCluster::name_of(ServerId server) const {
  return table_.name_of(server);
}

std::optional<StripeView> FluidCluster::stripe(StripeId id) const {
  if (id.value == 0 || id.value > state_.stripes.size()) return std::nullopt;
  return state_.stripes[id.value - 1];
}

asio::awaitable<Status> FluidCluster::commit_repair(Context, ChunkId chunk, ServerId, ServerId server) {
  StripeView& stripe = state_.stripes[chunk.stripe.value - 1];
  const auto lacking = static_cast<uint32_t>(std::ranges::count_if(
      stripe.chunks, [this](const ChunkView& each) { return each.length > 0 && !can_be_read(each); }));
  ChunkView& placed = stripe.chunks[chunk.index];
  placed.server = server;
  placed.available = true;
  const double bytes = static_cast<double>(placed.length) * repairs_for(chunk.stripe);
  commits_.push_back({.began = began_[chunk.stripe.value - 1],
                      .at = clock_.now(),
                      .bytes = bytes,
                      .lacking = lacking,
                      .stripe = chunk.stripe});
  if (state_.fills_up) {
    uint64_t& free = state_.servers[position(server.value)].free_bytes;
    free -= std::min(free, static_cast<uint64_t>(bytes));
  }
  co_return Status{};
}

asio::awaitable<Result<proto::RepairChunkResponse>> FluidCluster::execute(Context, runtime::Endpoint,
                                                                          proto::RepairChunkRequest request) {
  const auto transfer = std::make_shared<Transfer>(executor_, clock_);
  if (!first_begin_) first_begin_ = clock_.now();
  began_[request.stripe_id() - 1] = clock_.now();
  if (transfers_.size() > 2 * network_.flows() + 1024)
    std::erase_if(transfers_, [](const auto& known) { return known.expired(); });
  transfers_.push_back(transfer);
  const Done done = [transfer] {
    if (--transfer->open == 0) transfer->ended.notify_all();
  };
  begin(request, done, transfer->open);
  done();
  while (transfer->open > 0 && !stopping_)
    co_await transfer->ended.wait();
  if (stopping_) co_return Status{Code::kCancelled, "the simulation ends"};
  co_return proto::RepairChunkResponse{};
}

bool FluidCluster::can_be_read(const ChunkView& chunk) const {
  return chunk.available && chunk.server && state_.servers[position(chunk.server.value)].alive;
}

void FluidCluster::set_available(const std::vector<ChunkId>& chunks, bool available) {
  for (const ChunkId chunk : chunks)
    state_.stripes[chunk.stripe.value - 1].chunks[chunk.index].available = available;
}

void FluidCluster::stop() {
  stopping_ = true;
  for (const std::weak_ptr<Transfer>& known : transfers_)
    if (const auto transfer = known.lock()) transfer->ended.notify_all();
}

std::map<ServerId, std::vector<ChunkId>> FluidCluster::missing_chunks() const {
  std::map<ServerId, std::vector<ChunkId>> missing;
  for (const StripeView& stripe : state_.stripes)
    for (const ChunkView& chunk : stripe.chunks)
      if (!chunk.available && chunk.length > 0) missing[chunk.server].push_back({stripe.id, chunk.index});
  return missing;
}

void FluidCluster::send(uint32_t from, uint32_t to, double bytes, std::function<void()> arrived,
                        double repairs) {
  after(2 * state_.link.hop_latency_seconds * repairs,
        [this, hop = Hop{from, to, 1}, bytes = bytes * repairs, arrived = std::move(arrived)] {
          load(hop);
          const std::vector<Share> shares = take_loads();
          const double limit = std::min(network_.capacity(up(hop.from)), network_.capacity(down(hop.to)));
          network_.start(shares, bytes, limit, arrived);
        });
}

void FluidCluster::begin(const proto::RepairChunkRequest& request, const Done& done, size_t& open) {
  const uint32_t root = position(request.server_id());
  const bool star = std::ranges::all_of(request.children(), [](auto& n) { return n.children().empty(); });
  if (star || request.slice_bytes() >= request.length()) {
    begin_store_and_forward(request, request.children(), root, nullptr, done, open);
    return;
  }
  ++open;
  begin_pipeline(request, root, done);
}

/// All hops at one rate, those of trees that carry some of the slices at their share of it: slices are awaited in
/// order. Filling and draining takes (depth - 1) of a tree's slices more, or of what is forwarded of them at once;
/// meanwhile a part of the links idles.
void FluidCluster::begin_pipeline(const proto::RepairChunkRequest& request, uint32_t root, const Done& done) {
  const uint32_t rows = std::max(1u, request.rows());
  const auto bytes = static_cast<double>(request.length());
  const auto slice = static_cast<double>(request.slice_bytes());
  double fill = 0;
  for (const RepairNode& child : request.children()) {
    const double behind = depth_of(child.children());
    fill =
        std::max(fill, behind * std::min(slice, double{repair_manager::kForwardBytes}) / share_of(child, 1));
  }
  std::vector<Hop> hops;
  add_hops(request.children(), root, 1, rows, hops);
  for (const Hop& hop : hops)
    load(hop);
  std::vector<Share> shares = take_loads();
  const double work = bytes + fill;
  double limit = 1e300;
  for (Share& share : shares) {
    limit = std::min(limit, network_.capacity(share.link) / share.weight);
    share.weight *= bytes / work;
  }
  const double depth = depth_of(request.children());
  const double slices = std::ceil(bytes / slice) + depth - 1;
  const double delay =
      2 * depth * state_.link.hop_latency_seconds + slices * state_.link.slice_overhead_seconds;
  const double repairs = time_of(StripeId{request.stripe_id()});
  after(delay * repairs, [this, shares = std::move(shares), work = work * repairs, limit, done] {
    network_.start(shares, work, limit, done);
  });
}

/// Each sends its sum when it has those of all its children, whole. In a star nobody has children.
void FluidCluster::begin_store_and_forward(const proto::RepairChunkRequest& request, const Nodes& nodes,
                                           uint32_t parent,
                                           const std::shared_ptr<std::pair<size_t, Done>>& sent,
                                           const Done& done, size_t& open) {
  const uint32_t rows = std::max(1u, request.rows());
  for (const RepairNode& node : nodes) {
    const uint32_t from = position(node.server_id());
    const double bytes = static_cast<double>(request.length()) * sums_of(node) / rows * share_of(node, 1);
    if (sent == nullptr) ++open;
    const Done arrived = [sent, done] {
      if (sent == nullptr) {
        done();
      } else if (--sent->first == 0) {
        sent->second();
      }
    };
    const double repairs = time_of(StripeId{request.stripe_id()});
    const Done send_up = [this, from, parent, bytes, arrived, repairs] {
      send(from, parent, bytes, arrived, repairs);
    };
    if (node.children().empty()) {
      send_up();
      continue;
    }
    const auto below = std::make_shared<std::pair<size_t, Done>>(node.children_size(), send_up);
    begin_store_and_forward(request, node.children(), from, below, done, open);
  }
}

void FluidCluster::add_hops(const Nodes& nodes, uint32_t parent, double share, uint32_t rows,
                            std::vector<Hop>& out) const {
  for (const RepairNode& node : nodes) {
    const double own = share_of(node, share);
    const uint32_t from = position(node.server_id());
    out.push_back({from, parent, own * sums_of(node) / rows});
    add_hops(node.children(), from, own, rows, out);
  }
}

void FluidCluster::load(const Hop& hop) {
  const auto add = [this](uint32_t link, double sums) {
    if (loads_[link] == 0) loaded_.push_back(link);
    loads_[link] += sums;
  };
  add(up(hop.from), hop.sums);
  add(down(hop.to), hop.sums);
  if (rack_links_ == 0 || rack_of(hop.from) == rack_of(hop.to)) return;
  add(rack_up(rack_of(hop.from)), hop.sums);
  add(rack_down(rack_of(hop.to)), hop.sums);
}

std::vector<FluidNetwork::Share> FluidCluster::take_loads() {
  std::vector<Share> shares;
  std::ranges::sort(loaded_);
  for (const uint32_t link : loaded_)
    shares.push_back({link, std::exchange(loads_[link], 0)});
  loaded_.clear();
  return shares;
}

void FluidCluster::after(double seconds, std::function<void()> what) {
  const std::chrono::duration<double> delay{seconds};
  clock_.call_at(clock_.now() + std::chrono::duration_cast<Duration>(delay), std::move(what));
}

}  // namespace kintsugi::what_if
