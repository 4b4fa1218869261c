/// A metaserver in the simulator, with fake chunkservers that only talk to it, and a client that writes
/// "files" without moving any bytes.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "common/log/log.h"
#include "common/proto/meta.pb.h"
#include "common/rpc/client.h"
#include "erasure/layout.h"
#include "erasure/policy.h"
#include "metaserver/schema/stripes.h"
#include "metaserver/service/metaserver.h"
#include "metaserver/service/server_state.h"
#include "tests/expect_ok.h"
#include "tests/metaserver/support.h"
#include "tests/simulation/store/memory_store.h"

namespace kintsugi::metaserver {

/// Sessions of two clients.
inline constexpr uint64_t kOwner = 5, kOther = 6;

inline rpc::Secret test_secret(int n = 7) {
  std::array<std::byte, 32> key;
  key.fill(static_cast<std::byte>(n));
  return rpc::Secret(key);
}

/// A chunkserver that only talks: the chunks it pretends to hold, and what it was told.
struct FakeServer {
  ServerId id;
  std::string rack;
  std::string name;     ///< as configured; empty: none
  uint32_t number = 0;  ///< what it asks for, then what it was given
  std::string shown;    ///< as it was told it is shown
  uint32_t newest_format = proto::kNewestFormat;
  uint64_t incarnation = 1, sequence = 0, report = 0, orders = 0;
  proto::MetadataMark seen;  ///< the last that it was told
  bool alive = true;         ///< sends heartbeats
  bool leaving = false;      ///< says in them that it is being stopped
  bool registered = false;
  bool wants_report = true;
  bool loses_answers = false;  ///< of its heartbeats
  bool deletes_later = false;  ///< orders arrive and are not carried out yet
  uint64_t free_bytes = 1ull << 40;
  bool second_disk_hangs = false;                           ///< of two; chunks with odd indices are on it
  std::map<ChunkId, std::pair<uint64_t, uint32_t>> chunks;  ///< length, crc
  std::vector<ChunkId> lost;
  std::vector<ChunkId> deleted;
  std::vector<Status> refusals;
};

/// Everything that the metaserver told its host, in order.
struct Told {
  std::vector<ServerId> dead, returned, reported;
  std::vector<std::pair<ChunkId, std::string>> lost;
  std::vector<StripeId> deleted;
  std::vector<WantedMove> moves;
  std::vector<ServerId> cancelled;
  std::vector<ServerId> maintenance;  ///< began or ended
};

class NotingHost final : public RepairHost {
 public:
  explicit NotingHost(Told& told) : told_(told) {}
  Duration repair_delay() const override { return 60s; }
  bool anybody_repairs() const override { return anybody; }
  void server_dead(ServerId id) override { told_.dead.push_back(id); }
  void server_returned(ServerId id) override { told_.returned.push_back(id); }
  void maintenance_changed(ServerId id) override { told_.maintenance.push_back(id); }
  void block_report_complete(ServerId id) override { told_.reported.push_back(id); }
  void chunk_lost(ChunkId id, const std::string& why) override { told_.lost.emplace_back(id, why); }
  void stripe_deleted(StripeId id) override { told_.deleted.push_back(id); }
  void move_wanted(const WantedMove& move) override { told_.moves.push_back(move); }
  void moves_cancelled(ServerId from) override { told_.cancelled.push_back(from); }

  bool anybody = true;  ///< a repair manager is registered

 private:
  Told& told_;
};

class MetaServerRig {
 public:
  explicit MetaServerRig(uint64_t seed = 1, int servers = 9, int racks = 3, MetaServerOptions options = {})
      : simulation(seed),
        meta_node(simulation, "10.0.0.1"),
        client_node(simulation, "10.0.1.1"),
        options_(options) {
    options_.listen = {"10.0.0.1", 7000};
    options_.default_policy =
        options.default_policy == MetaServerOptions{}.default_policy ? "rs-3-2-64k" : options.default_policy;
    log::set_level(log::Level::kError);
    client = std::make_unique<rpc::Client>(client_node.runtime(), test_secret());
    for (int i = 0; i < servers; ++i)
      add_server(i % racks);
    start();
    heartbeat_all();
  }
  ~MetaServerRig() {
    if (meta) simulation.run(meta->stop());
    simulation.run(client->stop());
  }

  FakeServer& add_server(int rack) {
    FakeServer server;
    server.id = ServerId{100 + servers.size()};
    server.rack = "rack" + std::to_string(rack);
    servers.push_back(std::move(server));
    return servers.back();
  }

  void start() {
    store = std::make_unique<simulation::MemoryStore>(meta_node.runtime().executor, meta_node.runtime().clock,
                                                      disk, sync_latency);
    meta_runtime = std::make_unique<runtime::Runtime>(meta_node.runtime());
    meta = std::make_unique<MetaServer>(*meta_runtime, options_, test_secret(), *store);
    meta->set_host(host);
    const Status started = simulation.run(meta->start());
    KINTSUGI_ASSERT_OK(started);
  }

  /// Crash (keeping `survivors` unacknowledged batches) or clean stop, then start again.
  void restart(bool crash = true, size_t survivors = 0) {
    if (crash) {
      meta_node.crash();
      disk.crash(survivors);
    }
    simulation.run(meta->stop());
    meta.reset();
    store.reset();
    if (crash) meta_node.restart();
    told = {};
    for (FakeServer& server : servers)
      server.wants_report = true;
    start();
  }

  /// kDeadlineExceeded after `limit`: which end gives up first is a matter of microseconds.
  asio::awaitable<Status> call_within(Duration limit, rpc::Method method,
                                      const google::protobuf::MessageLite& request,
                                      google::protobuf::MessageLite& response) {
    Context context;
    context.deadline = simulation.now() + limit;
    const Status status = co_await client->call(context, {"10.0.0.1", 7000}, method, request, response);
    if (status.code() == Code::kUnavailable && simulation.now() >= context.deadline)
      co_return Status{Code::kDeadlineExceeded, status.message()};
    co_return status;
  }
  template <class Response>
  Result<Response> call(rpc::Method method, const google::protobuf::MessageLite& request) {
    Response response;
    const Status status = simulation.run(call_async(method, request, response));
    if (!status.ok()) return status;
    return response;
  }
  asio::awaitable<Status> call_async(rpc::Method method, const google::protobuf::MessageLite& request,
                                     google::protobuf::MessageLite& response) {
    Context context;
    context.deadline = simulation.now() + 20s;
    return client->call(context, options_.listen, method, request, response);
  }

  // ---- chunkservers
  /// One heartbeat of each living server: registers, reports and deletes as it is told.
  void heartbeat_all() {
    for (FakeServer& server : servers) {
      if (server.alive) heartbeat(server);
    }
  }
  void heartbeat(FakeServer& server);
  void send_report(FakeServer& server, int page_size = 3);
  /// Seconds of virtual time, with heartbeats every second.
  void pass(int seconds) {
    for (int i = 0; i < seconds; ++i) {
      heartbeat_all();
      simulation.run_for(1s);
    }
  }
  FakeServer& server(ServerId id) {
    for (FakeServer& server : servers) {
      if (server.id == id) return server;
    }
    KINTSUGI_ASSERT(false);
    return servers.front();
  }
  /// The last server that holds no chunk of the stripe; null: all do.
  FakeServer* unused_by(const proto::Stripe& stripe) {
    FakeServer* unused = nullptr;
    for (FakeServer& server : servers) {
      const bool used = std::ranges::any_of(
          stripe.chunks(), [&](const auto& placed) { return placed.server_id() == server.id.value; });
      if (!used) unused = &server;
    }
    return unused;
  }

  // ---- files
  Result<proto::AllocateStripeResponse> allocate(const std::string& path, uint64_t upload = 0,
                                                 const std::string& policy = "", uint64_t file_bytes = 0) {
    proto::AllocateStripeRequest request;
    request.set_path(path);
    request.set_file_bytes(file_bytes);
    request.set_upload_id(upload);
    request.set_policy(policy);
    return call<proto::AllocateStripeResponse>(rpc::Method::kAllocateStripe, request);
  }
  /// "Writes" the chunks of an allocated stripe, except those in `missing`.
  proto::SealedStripe write(const proto::AllocateStripeResponse& allocated, uint64_t length,
                            const std::set<uint32_t>& missing = {});
  Status seal(uint64_t upload, const proto::SealedStripe& sealed) {
    proto::SealStripeRequest request;
    request.set_upload_id(upload);
    *request.mutable_sealed() = sealed;
    return status_of(call<proto::Empty>(rpc::Method::kSealStripe, request));
  }
  proto::CommitFileRequest commit_request(const std::string& path, uint64_t upload,
                                          const std::vector<proto::SealedStripe>& stripes,
                                          bool seal_in_commit = true);
  Result<proto::CommitFileResponse> commit(const proto::CommitFileRequest& request) {
    return call<proto::CommitFileResponse>(rpc::Method::kCommitFile, request);
  }
  /// A whole file of `stripes` stripes of `length` bytes.
  Status put(const std::string& path, int stripes = 1, uint64_t length = 300'000, bool replace = false);
  Status remove(const std::string& path, bool recursive = false) {
    proto::RemoveRequest request;
    request.set_path(path);
    request.set_recursive(recursive);
    return status_of(call<proto::Empty>(rpc::Method::kRemove, request));
  }
  Status make_directory(const std::string& path) {
    proto::MakeDirectoryRequest request;
    request.set_path(path);
    return status_of(call<proto::Empty>(rpc::Method::kMakeDirectory, request));
  }
  Result<proto::OpenReadResponse> open(const std::string& path, uint64_t offset = 0, uint64_t length = 0) {
    proto::OpenReadRequest request;
    request.set_path(path);
    request.set_offset(offset);
    request.set_length(length);
    return call<proto::OpenReadResponse>(rpc::Method::kOpenRead, request);
  }
  bool exists(const std::string& path) {
    proto::StatRequest request;
    request.set_path(path);
    return call<proto::StatResponse>(rpc::Method::kStat, request).has_value();
  }
  proto::FsckResponse fsck() {
    proto::FsckRequest request;
    request.set_path("/");
    return *call<proto::FsckResponse>(rpc::Method::kFsck, request);
  }
  /// Copies a chunk, as a repair manager would have it done, and commits. `to` none: to the first server that
  /// may have it. Of a dead server: the copy comes from nowhere.
  Status move(ChunkId chunk, ServerId from, ServerId to);
  /// Every chunk that the metadata places is on its server, as it was written. The rule that garbage
  /// collection must not break. Servers that are down are left out.
  void expect_all_chunks_in_place();
  size_t chunks_on_servers() const {
    size_t count = 0;
    for (const FakeServer& server : servers)
      count += server.chunks.size();
    return count;
  }

  template <class T>
  static Status status_of(const Result<T>& result) {
    return result ? Status{} : result.error();
  }

  Duration sync_latency = 200us;  ///< counts from the next start on
  simulation::Simulation simulation;
  simulation::SimNode meta_node, client_node;
  simulation::MemoryStoreDisk disk;
  std::unique_ptr<simulation::MemoryStore> store;
  std::unique_ptr<runtime::Runtime> meta_runtime;
  std::unique_ptr<MetaServer> meta;
  std::unique_ptr<rpc::Client> client;
  std::deque<FakeServer> servers;
  Told told;

  // The view of a repair manager.
  std::vector<proto::ServerState> server_states() {
    std::vector<proto::ServerState> states;
    for (const auto& [id, server] : meta->state().servers.registry.servers())
      states.push_back(server_state(server, meta->state().servers, meta->state().chunks.block_reports,
                                    meta->state().repairs.rebalancer, *store));
    return states;
  }
  std::optional<proto::StoredStripe> stripe(StripeId id) { return load_stripe(*store, id); }
  std::vector<ChunkId> chunks_of(ServerId server) {
    std::vector<ChunkId> found;
    scan_chunks_of(*store, server, {}, [&](ChunkId chunk) {
      found.push_back(chunk);
      return true;
    });
    return found;
  }
  Status commit_repair(ChunkId chunk, ServerId expected_old, ServerId to) {
    return simulation.run(meta->repairs().commit(Context{}, chunk, expected_old, to));
  }

 private:
  NotingHost host{told};
  MetaServerOptions options_;
};

}  // namespace kintsugi::metaserver
