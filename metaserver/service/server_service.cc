#include "metaserver/service/server_service.h"

#include "common/log/log.h"
#include "monitoring/sight/module.h"

namespace kintsugi::metaserver {
namespace {

constexpr sight::Site kRegister{"metaserver.register_server"};
constexpr sight::Site kHeartbeat{"metaserver.heartbeat", {"lost_chunks"}, {"victims"}};
constexpr sight::Site kBlockReport{"metaserver.block_report", {"chunks"}};
constexpr sight::Site kReportChunk{"metaserver.report_chunk"};

constexpr size_t kMaxDetailBytes = 500;  ///< of a reader's words

}  // namespace

void ServerService::register_on(rpc::Server& server) {
  using rpc::Method;
  server.handle<proto::RegisterServerRequest, proto::RegisterServerResponse>(
      Method::kRegisterServer, [this](Context context, proto::RegisterServerRequest r) {
        return register_server(context, std::move(r));
      });
  server.handle<proto::HeartbeatRequest, proto::HeartbeatResponse>(
      Method::kHeartbeat,
      [this](Context context, proto::HeartbeatRequest r) { return heartbeat(context, std::move(r)); });
  server.handle<proto::BlockReportRequest, proto::Empty>(
      Method::kBlockReport,
      [this](Context context, proto::BlockReportRequest r) { return block_report(context, std::move(r)); });
  server.handle<proto::ReportChunkRequest, proto::Empty>(
      Method::kReportChunk,
      [this](Context context, proto::ReportChunkRequest r) { return report_chunk(context, std::move(r)); });
}

asio::awaitable<Result<proto::RegisterServerResponse>> ServerService::register_server(
    Context context, proto::RegisterServerRequest request) {
  sight::Module module{context, kRegister};
  Transaction transaction(core_.store);
  const Status registered = core_.servers.register_server(transaction, request);
  KINTSUGI_CO_TRY(module.finish(co_await core_.finish(module.context(), registered, transaction)));
  core_.garbage.wake(ServerId{request.server_id()});
  core_.caches.forget(ServerId{request.server_id()});
  proto::RegisterServerResponse response;
  response.set_heartbeat_interval_ms(static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(core_.options.heartbeat_interval).count()));
  response.set_cluster_id(core_.cluster_id);
  co_return response;
}

bool ServerService::report_lost(ChunkId chunk, ServerId server, const std::string& why, bool proven) {
  const auto stripe = load_stripe(core_.store, chunk.stripe);
  if (!stripe || chunk.index >= static_cast<uint32_t>(stripe->chunks_size())) return false;
  if (!server || stripe->chunks(static_cast<int>(chunk.index)).server_id() != server.value) return false;
  core_.chunks.set_lost(chunk, why, proven);
  return true;
}

asio::awaitable<Result<proto::HeartbeatResponse>> ServerService::heartbeat(Context context,
                                                                           proto::HeartbeatRequest request) {
  sight::Module module{context, kHeartbeat, {double(request.lost_size())}};
  const ServerId server{request.server_id()};
  proto::HeartbeatResponse response;
  auto verdict = core_.servers.heartbeat(request);
  if (!verdict) co_return module.finish(co_await core_.finish_read(verdict.error()));
  if (*verdict == ServerRegistry::Verdict::kRegisterAgain) {
    response.set_register_again(true);
    co_return response;
  }
  core_.caches.apply(server, request);
  for (const proto::ReportedChunk& lost : request.lost()) {
    const std::string why = fmt::format("server {} found it missing or corrupt", server);
    report_lost({StripeId{lost.stripe_id()}, lost.index()}, server, why, false);
  }
  Transaction transaction(core_.store);
  const std::vector<ChunkId> victims = core_.garbage.exchange(transaction, server, request.incarnation());
  // An order to delete rests on pending writes too: it leaves only once they are durable.
  if (!victims.empty() || !transaction.empty()) {
    KINTSUGI_CO_TRY(module.finish(co_await core_.finish(module.context(), transaction)));
  }
  for (ChunkId victim : victims) {
    proto::HeartbeatResponse::Victim* ordered = response.add_delete_chunks();
    ordered->set_stripe_id(victim.stripe.value);
    ordered->set_index(victim.index);
  }
  response.set_report_blocks(core_.block_reports.should_ask(server));
  response.set_probe_address(core_.servers.random_peer(server, core_.runtime.random));
  module.output(0, response.delete_chunks_size());
  co_return response;
}

asio::awaitable<Result<proto::Empty>> ServerService::block_report(Context context,
                                                                  proto::BlockReportRequest request) {
  sight::Module module{context, kBlockReport, {double(request.chunks_size())}};
  Transaction transaction(core_.store);
  // Those that come every hour bring nobody back.
  const ServerRecord* server = core_.servers.find(ServerId{request.server_id()});
  const bool first = server != nullptr && server->wants_block_report;
  const Result<bool> complete = core_.block_reports.take_page(transaction, request);
  const Status taken = complete ? Status{} : complete.error();
  KINTSUGI_CO_TRY(module.finish(co_await core_.finish(module.context(), taken, transaction)));
  if (*complete && first) core_.events.block_report_complete(ServerId{request.server_id()});
  co_return proto::Empty{};
}

asio::awaitable<Result<proto::Empty>> ServerService::report_chunk(Context context,
                                                                  proto::ReportChunkRequest request) {
  sight::Module module{context, kReportChunk};
  const ChunkId chunk{StripeId{request.stripe_id()}, request.index()};
  const ServerId server{request.server_id()};
  const std::string why =
      fmt::format("a reader found it {} on server {}: {}", request.corrupt() ? "corrupt" : "unreadable",
                  server, request.detail().substr(0, kMaxDetailBytes));
  if (report_lost(chunk, server, why, request.corrupt())) log::warning("chunk {}: {}", chunk, why);
  KINTSUGI_CO_TRY(module.finish(co_await core_.finish_read()));
  co_return proto::Empty{};
}

}  // namespace kintsugi::metaserver
