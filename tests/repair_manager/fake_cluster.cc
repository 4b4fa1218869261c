#include "tests/repair_manager/fake_cluster.h"

#include <algorithm>

#include <boost/asio/post.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace kintsugi::repair_manager {
namespace {

constexpr uint16_t kPort = 7000;
constexpr int kTurnsOfACommit = 100;

using Nodes = google::protobuf::RepeatedPtrField<proto::RepairNode>;

void for_each_node(const Nodes& nodes, const std::function<void(const proto::RepairNode&)>& visit) {
  for (const proto::RepairNode& node : nodes) {
    visit(node);
    for_each_node(node.children(), visit);
  }
}

/// Returns the servers of a repair that is split over several trees, each once.
std::set<ServerId> helpers_of(const Nodes& nodes) {
  std::set<ServerId> helpers;
  for_each_node(nodes, [&](const proto::RepairNode& node) {
    if (!node.coefficients().empty()) helpers.insert(ServerId{node.server_id()});
  });
  return helpers;
}

std::set<ServerId> receivers_of(const Nodes& nodes, ServerId root) {
  std::set<ServerId> receivers{root};
  for_each_node(nodes, [&](const proto::RepairNode& node) {
    if (node.stores_size() > 0) receivers.insert(ServerId{node.server_id()});
  });
  return receivers;
}

}  // namespace

bool FakeView::available(ServerId server, ChunkId chunk) const {
  return server && !lost.contains(chunk) && all_servers.at(server).alive;
}

std::vector<ServerView> FakeView::servers() const {
  std::vector<ServerView> result;
  for (const auto& [id, server] : all_servers)
    result.push_back(server);
  for (ServerView& server : result)
    if (suspect.contains(server.id)) server.alive = false;
  return result;
}

std::optional<StripeView> FakeView::stripe(StripeId id) const {
  const auto at = stripes.find(id);
  if (at == stripes.end()) return std::nullopt;
  StripeView view = at->second;
  for (ChunkView& chunk : view.chunks)
    chunk.available = available(chunk.server, {id, chunk.index});
  return view;
}

std::string FakeView::capability(ChunkId chunk, uint32_t operations, WallTime) const {
  return fmt::format("{}/{}", chunk, operations);
}

asio::awaitable<Result<proto::RepairChunkResponse>> FakeView::execute(Context context,
                                                                      runtime::Endpoint destination,
                                                                      proto::RepairChunkRequest request) {
  proto::RepairChunkResponse response;
  KINTSUGI_CO_TRY(co_await client->call(context, destination, rpc::Method::kRepairChunk, request, response));
  co_return response;
}

asio::awaitable<void> FakeView::give_up(Context, runtime::Endpoint destination,
                                        proto::EndRepairRequest request) {
  given_up.emplace_back(destination.host, request.repair_id());
  co_return;
}

asio::awaitable<Status> FakeView::commit_repair(Context, ChunkId chunk, ServerId expected_old,
                                                ServerId server) {
  if (refused.erase(chunk) > 0) co_return Status{Code::kUnavailable, "the store is slow"};
  const auto at = stripes.find(chunk.stripe);
  if (at == stripes.end()) co_return Status{Code::kConflict, "no such stripe"};
  for (const ChunkView& other : at->second.chunks)
    if (other.index != chunk.index && other.server == server)
      co_return Status{Code::kInternal, "two chunks on one server"};
  ChunkView& placed = at->second.chunks[chunk.index];
  if (placed.server != expected_old) co_return Status{Code::kConflict, "moved meanwhile"};
  placed.server = server;
  lost.erase(chunk);
  commits.emplace_back(chunk, server);
  if (on_commit) {
    on_commit(chunk, server);
    const auto executor = co_await asio::this_coro::executor;
    for (int turn = 0; turn < kTurnsOfACommit; ++turn)
      co_await asio::post(executor, asio::use_awaitable);
  }
  co_return Status{};
}

void FakeView::report_lost(ChunkId chunk, ServerId, const std::string&) {
  lost.insert(chunk);
}

size_t FakeView::available_chunks(StripeId id) const {
  const auto view = stripe(id);
  return static_cast<size_t>(
      std::count_if(view->chunks.begin(), view->chunks.end(), [](auto& c) { return c.available; }));
}

std::vector<ChunkId> FakeView::chunks_of(ServerId server) const {
  std::vector<ChunkId> chunks;
  for (const auto& [id, stripe] : stripes)
    for (const ChunkView& chunk : stripe.chunks)
      if (chunk.server == server) chunks.push_back({id, chunk.index});
  return chunks;
}

FakeChunkServer::FakeChunkServer(simulation::Simulation& simulation, FakeCluster& cluster, ServerId server_id)
    : id(server_id),
      host(fmt::format("10.0.0.{}", server_id)),
      cluster_(cluster),
      node_(simulation, host),
      tasks_(node_.runtime()),
      server_(node_.runtime(), rpc::Secret{}, nullptr) {
  server_.handle<&FakeChunkServer::repair>(rpc::Method::kRepairChunk, *this);
  KINTSUGI_ASSERT(server_.start({host, kPort}).ok());
}

void FakeChunkServer::crash() {
  node_.crash();
}

asio::awaitable<void> FakeChunkServer::stop() {
  tasks_.request_stop();
  co_await server_.stop();
  co_await tasks_.join();
}

asio::awaitable<Status> FakeChunkServer::repair(Context, const proto::RepairChunkRequest& request,
                                                proto::RepairChunkResponse& response) {
  cluster_.began(request, id);
  co_await tasks_.sleep_for(repair_time);
  cluster_.ended(request, id);
  ServerId broken;
  for_each_node(request.children(), [&](const proto::RepairNode& node) {
    const ServerId server{node.server_id()};
    const bool dead = !cluster_.view.all_servers.at(server).alive;
    if (dead || cluster_.broken_helpers.contains(server)) broken = server;
  });
  if (broken)
    co_return Status{Code::kUnavailable, fmt::format("partial sum: server {}: connection refused", broken)}
        .blame(broken);
  if (verdict) {
    const Status status = verdict(request);
    if (!status.ok()) co_return status;
  }
  response.mutable_timing()->set_bytes_in(request.length());
  response.add_servers()->set_server_id(id.value);
  co_return Status{};
}

FakeCluster::FakeCluster(uint64_t seed, size_t count, Options options)
    : simulation(seed),
      node_(simulation, "meta"),
      client_(node_.runtime(), rpc::Secret{}),
      manager(node_.runtime(), options, view, nullptr) {
  view.client = &client_;
  for (uint64_t id = 1; id <= count; ++id) {
    servers.emplace(ServerId{id}, std::make_unique<FakeChunkServer>(simulation, *this, ServerId{id}));
    view.all_servers[ServerId{id}] = {.id = ServerId{id},
                                      .address = {servers.at(ServerId{id})->host, kPort},
                                      .rack = fmt::format("rack{}", id % 3),
                                      .alive = true,
                                      .free_bytes = uint64_t{1} << 40};
  }
  manager.start();
}

void FakeCluster::stop() {
  if (std::exchange(stopped_, true)) return;
  simulation.run([](FakeCluster& self) -> asio::awaitable<void> {
    co_await self.client_.stop();
    co_await self.manager.stop();
    for (auto& [id, server] : self.servers)
      co_await server->stop();
  }(*this));
}

StripeId FakeCluster::add_stripe(size_t first, uint64_t chunk_length) {
  const StripeId id{view.stripes.size() + 1};
  StripeView stripe{.id = id, .policy = "rs-6-3-64k", .length = 6 * chunk_length};
  for (uint32_t i = 0; i < 9; ++i)
    stripe.chunks.push_back(
        {.index = i, .server = ServerId{(first + i) % servers.size() + 1}, .length = chunk_length, .crc = i});
  view.stripes.emplace(id, std::move(stripe));
  return id;
}

void FakeCluster::kill(ServerId server) {
  servers.at(server)->crash();
  set_alive(server, false);
}

void FakeCluster::set_alive(ServerId server, bool alive) {
  view.all_servers.at(server).alive = alive;
  if (alive) {
    manager.server_returned(server);
  } else {
    manager.server_dead(server, view.chunks_of(server));
  }
}

void FakeCluster::lose(ChunkId chunk, const std::string& why) {
  view.lost.insert(chunk);
  manager.chunk_lost(chunk, why, /*delay_ok=*/false);
}

bool FakeCluster::healthy() const {
  return std::all_of(view.stripes.begin(), view.stripes.end(), [this](const auto& stripe) {
    return view.available_chunks(stripe.first) == stripe.second.chunks.size();
  });
}

void FakeCluster::began(const proto::RepairChunkRequest& request, ServerId destination) {
  calls.emplace_back(simulation.now(), request);
  for (ServerId helper : helpers_of(request.children()))
    most_helping = std::max(most_helping, ++helping[helper]);
  for (ServerId receiver : receivers_of(request.children(), destination))
    most_receiving = std::max(most_receiving, ++receiving[receiver]);
}

void FakeCluster::ended(const proto::RepairChunkRequest& request, ServerId destination) {
  for (ServerId helper : helpers_of(request.children()))
    --helping[helper];
  for (ServerId receiver : receivers_of(request.children(), destination))
    --receiving[receiver];
}

}  // namespace kintsugi::repair_manager
