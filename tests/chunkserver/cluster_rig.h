/// Chunkservers on simulated machines, a metaserver that only takes notes, and a client that speaks the wire protocol.
#pragma once

#include <boost/asio/detached.hpp>

#include "chunkserver/service/chunkserver.h"
#include "common/proto/chunk.pb.h"
#include "common/proto/meta.pb.h"
#include "common/rpc/client.h"
#include "common/rpc/server.h"
#include "erasure/code.h"
#include "erasure/repair_equation.h"
#include "tests/chunkserver/store_rig.h"

namespace kintsugi::chunkserver {

inline constexpr char kTestPolicy[] = "rs-6-3-1024k";
inline constexpr uint32_t kAllOps = rpc::kOpRead | rpc::kOpWrite | rpc::kOpRepair;

/// Answers as it is told and remembers what it was sent.
class FakeMetaserver {
 public:
  FakeMetaserver(const runtime::Runtime& runtime, rpc::Secret secret);
  asio::awaitable<void> stop() { return server_.stop(); }

  std::string cluster = "blue";
  uint32_t number = 0;                   ///< of whichever server registers; 0: it is told none
  proto::HeartbeatResponse next_answer;  ///< given once
  std::string probe_address;             ///< named in every answer
  Status refusal;                        ///< unless ok: the answer to everything
  Status report_refusal;                 ///< unless ok: the answer to block reports
  uint64_t replaces = 0;                 ///< the incarnation that has the server's place
  std::vector<proto::RegisterServerRequest> registrations;
  std::vector<proto::HeartbeatRequest> heartbeats;
  std::vector<proto::BlockReportRequest> reports;

 private:
  rpc::Server server_;
};

inline FakeMetaserver::FakeMetaserver(const runtime::Runtime& runtime, rpc::Secret secret)
    : server_(runtime, secret, nullptr) {
  server_.handle(rpc::Method::kRegisterServer,
                 [this](Context, const proto::RegisterServerRequest& request,
                        proto::RegisterServerResponse& response) -> asio::awaitable<Status> {
                   registrations.push_back(request);
                   response.set_heartbeat_interval_ms(1000);
                   response.set_cluster_id(cluster);
                   response.set_number(number);
                   if (request.replaces() != replaces) response.set_replaces(replaces);
                   co_return refusal;
                 });
  server_.handle(rpc::Method::kHeartbeat,
                 [this](Context, const proto::HeartbeatRequest& request,
                        proto::HeartbeatResponse& response) -> asio::awaitable<Status> {
                   heartbeats.push_back(request);
                   if (!refusal.ok()) co_return refusal;
                   response = std::exchange(next_answer, {});
                   response.set_probe_address(probe_address);
                   co_return Status{};
                 });
  server_.handle(
      rpc::Method::kBlockReport,
      [this](Context, const proto::BlockReportRequest& request, proto::Empty&) -> asio::awaitable<Status> {
        reports.push_back(request);
        co_return refusal.ok() ? report_refusal : refusal;
      });
  Status started = server_.start({"meta", 7000});
  KINTSUGI_ASSERT(started.ok());
}

class ClusterRig {
 public:
  explicit ClusterRig(size_t servers, uint64_t seed = 1);
  ~ClusterRig();

  struct Server {
    std::unique_ptr<simulation::SimNode> node;
    std::unique_ptr<runtime::Runtime> runtime;
    std::unique_ptr<ChunkServer> server;
  };
  std::vector<std::string> disks{"/disk"};  ///< of servers that are started from now on
  std::string server_name;                  ///< of servers that are started from now on; empty: none
  std::vector<Status> refused;              ///< reasons for which servers were told to end
  runtime::Endpoint endpoint(size_t i) const { return {host(i), 7000}; }
  std::string host(size_t i) const { return "server" + std::to_string(i); }
  ChunkStore& store(size_t i) { return servers[i].server->store(); }
  ServerId id(size_t i) { return servers[i].server->id(); }
  void start_server(size_t i);
  void stop_server(size_t i);

  std::string capability(ChunkId id, uint32_t operations = kAllOps) {
    return rpc::make_capability(secret, id, operations, client_runtime.clock.wall_now() + 1h);
  }
  Status put(size_t server, ChunkId id, const std::vector<std::byte>& bytes) {
    return simulation.run(put_chunk(*this, server, id, bytes));
  }
  /// As a repair writes it, which may choose a place that the chunk had left.
  Status rebuild(size_t server, ChunkId id, const std::vector<std::byte>& bytes) {
    runtime::BufferPool pool(*servers[server].runtime, 4, kTestFrameBytes);
    return simulation.run(chunkserver::put(store(server), pool, id, bytes));
  }
  Result<std::vector<std::byte>> get(size_t server, ChunkId id, uint64_t offset = 0,
                                     uint64_t length = kMaxChunkBytes) {
    return simulation.run(get_chunk(*this, server, id, offset, length));
  }
  Result<proto::RepairChunkResponse> repair(size_t root, const proto::RepairChunkRequest& request) {
    return simulation.run(repair_on(*this, root, request));
  }
  /// Begins it; the answer will be in `repaired`.
  void begin_repair(size_t root, const proto::RepairChunkRequest& request) {
    asio::co_spawn(simulation.executor(), repair_later(*this, root, request), asio::detached);
  }
  Status end_repair(size_t root, const proto::EndRepairRequest& request) {
    return simulation.run(end_on(*this, root, request));
  }
  /// Sets the links of all servers, both ways.
  void set_links(uint64_t bytes_per_second) {
    for (size_t i = 0; i < servers.size(); ++i)
      simulation.network().set_link(host(i), bytes_per_second, bytes_per_second);
  }

  static asio::awaitable<Status> put_chunk(ClusterRig& rig, size_t server, ChunkId id,
                                           std::vector<std::byte> bytes);
  static asio::awaitable<Result<std::vector<std::byte>>> get_chunk(ClusterRig& rig, size_t server, ChunkId id,
                                                                   uint64_t offset, uint64_t length);
  static asio::awaitable<Result<proto::RepairChunkResponse>> repair_on(ClusterRig& rig, size_t root,
                                                                       proto::RepairChunkRequest request);
  static asio::awaitable<void> repair_later(ClusterRig& rig, size_t root, proto::RepairChunkRequest request);
  static asio::awaitable<Status> end_on(ClusterRig& rig, size_t root, proto::EndRepairRequest request);

  std::optional<Result<proto::RepairChunkResponse>> repaired;
  QuietLog quiet;
  simulation::Simulation simulation;
  rpc::Secret secret;
  simulation::SimNode meta_node, client_node;
  runtime::Runtime meta_runtime, client_runtime;
  FakeMetaserver meta;
  rpc::Client client;
  std::vector<Server> servers;
};

inline ClusterRig::ClusterRig(size_t count, uint64_t seed)
    : simulation(simulation::Simulation::seed_from_environment(seed)),
      meta_node(simulation, "meta"),
      client_node(simulation, "client"),
      meta_runtime(meta_node.runtime()),
      client_runtime(client_node.runtime()),
      meta(meta_runtime, secret),
      client(client_runtime, secret),
      servers(count) {
  for (size_t i = 0; i < count; ++i) {
    servers[i].node = std::make_unique<simulation::SimNode>(simulation, host(i));
    start_server(i);
  }
}

inline ClusterRig::~ClusterRig() {
  for (size_t i = 0; i < servers.size(); ++i)
    stop_server(i);
  simulation.run(client.stop());
  simulation.run(meta.stop());
}

inline void ClusterRig::start_server(size_t i) {
  Options options;
  options.listen = endpoint(i);
  options.name = server_name;
  options.metaserver = {"meta", 7000};
  options.disks = disks;
  options.rack = "rack" + std::to_string(i % 3);
  servers[i].runtime = std::make_unique<runtime::Runtime>(servers[i].node->runtime());
  servers[i].server = std::make_unique<ChunkServer>(*servers[i].runtime, options, secret);
  servers[i].server->on_refused = [this](Status why) { refused.push_back(std::move(why)); };
  Status started = simulation.run(servers[i].server->start());
  KINTSUGI_ASSERT(started.ok());
}

inline void ClusterRig::stop_server(size_t i) {
  if (!servers[i].server) return;
  simulation.run(servers[i].server->stop());
  servers[i].server.reset();
}

inline asio::awaitable<Status> ClusterRig::put_chunk(ClusterRig& rig, size_t server, ChunkId id,
                                                     std::vector<std::byte> bytes) {
  proto::WriteChunkRequest request;
  request.set_stripe_id(id.stripe.value);
  request.set_index(id.index);
  request.set_policy(kTestPolicy);
  request.set_capability(rig.capability(id));
  request.set_max_bytes(bytes.size());
  auto stream =
      co_await rig.client.open_stream(Context{}, rig.endpoint(server), rpc::Method::kWriteChunk, request);
  if (!stream) co_return stream.error();
  for (size_t at = 0; at < bytes.size(); at += kTestFrameBytes) {
    std::span<const std::byte> part =
        std::span(bytes).subspan(at, std::min(kTestFrameBytes, bytes.size() - at));
    proto::WriteChunkData data;
    data.set_offset(at);
    for (uint32_t crc : crc32c_blocks(part))
      data.add_block_crcs(crc);
    const asio::const_buffer payload(part.data(), part.size());
    KINTSUGI_CO_TRY(co_await (*stream)->send(data, std::span(&payload, 1)));
  }
  proto::WriteChunkSeal seal;
  seal.set_length(bytes.size());
  seal.set_crc(crc32c(bytes));
  KINTSUGI_CO_TRY(co_await (*stream)->send_end(seal));
  proto::WriteChunkDone done;
  auto answer = co_await (*stream)->receive(done);
  if (!answer) co_return answer.error();
  EXPECT_TRUE(answer->end);
  EXPECT_EQ(done.length(), bytes.size());
  rig.client.finish(rig.endpoint(server), std::move(*stream));
  co_return Status{};
}

/// Blocks that cover the range, checked.
inline asio::awaitable<Result<std::vector<std::byte>>> ClusterRig::get_chunk(ClusterRig& rig, size_t server,
                                                                             ChunkId id, uint64_t offset,
                                                                             uint64_t length) {
  proto::ReadChunkRequest request;
  request.set_stripe_id(id.stripe.value);
  request.set_index(id.index);
  request.set_capability(rig.capability(id));
  request.set_offset(offset);
  request.set_length(length);
  auto stream =
      co_await rig.client.open_stream(Context{}, rig.endpoint(server), rpc::Method::kReadChunk, request);
  if (!stream) co_return stream.error();
  std::vector<std::byte> bytes;
  const uint64_t begin = offset / kBlockBytes * kBlockBytes;
  while (true) {
    proto::ReadChunkData data;
    proto::ReadChunkDone done;
    auto frame = co_await (*stream)->receive(data, done);
    if (!frame) co_return frame.error();
    if (frame->end) break;
    EXPECT_EQ(data.offset(), begin + bytes.size());
    std::vector<std::byte> part(frame->payload_bytes);
    KINTSUGI_CO_TRY(co_await (*stream)->receive_payload(part));
    std::vector<uint32_t> crcs(data.block_crcs().begin(), data.block_crcs().end());
    EXPECT_EQ(crcs, crc32c_blocks(part));
    bytes.insert(bytes.end(), part.begin(), part.end());
  }
  proto::Empty end;
  KINTSUGI_CO_TRY(co_await (*stream)->send_end(end));
  rig.client.finish(rig.endpoint(server), std::move(*stream));
  co_return bytes;
}

inline asio::awaitable<Result<proto::RepairChunkResponse>> ClusterRig::repair_on(
    ClusterRig& rig, size_t root, proto::RepairChunkRequest request) {
  Context context;
  context.deadline = rig.simulation.now() + 10min;
  proto::RepairChunkResponse response;
  KINTSUGI_CO_TRY(
      co_await rig.client.call(context, rig.endpoint(root), rpc::Method::kRepairChunk, request, response));
  co_return response;
}

inline asio::awaitable<void> ClusterRig::repair_later(ClusterRig& rig, size_t root,
                                                      proto::RepairChunkRequest request) {
  rig.repaired = co_await repair_on(rig, root, std::move(request));
}

inline asio::awaitable<Status> ClusterRig::end_on(ClusterRig& rig, size_t root,
                                                  proto::EndRepairRequest request) {
  Context context;
  context.deadline = rig.simulation.now() + 10s;
  proto::Empty response;
  co_return co_await rig.client.call(context, rig.endpoint(root), rpc::Method::kEndRepair, request, response);
}

}  // namespace kintsugi::chunkserver
