#include "metaserver/daemon/meta_daemon.h"

#include <algorithm>
#include <utility>

namespace kintsugi::metaserver {

MetaDaemon::MetaDaemon(const runtime::Runtime& runtime, MetaDaemonOptions options, rpc::Secret secret,
                       KeyValueStore& store)
    : metaserver_(runtime, options.metaserver, secret, store),
      client_(runtime, secret),
      view_(metaserver_, client_),
      repairs_(runtime, options.repairs, view_, options.metaserver.recorder) {
  connect_events();
  register_handlers();
}

void MetaDaemon::connect_events() {
  MetaServerEvents events;
  events.server_dead = [this](ServerId server) {
    repairs_.server_dead(server, metaserver_.chunks_of(server));
  };
  events.server_returned = [this](ServerId server) { repairs_.server_returned(server); };
  // Also of a new server, or with chunks that were missing.
  events.block_report_complete = [this](ServerId server) { repairs_.server_returned(server); };
  // Bad or missing on a living server: waiting does not bring it back.
  events.chunk_lost = [this](ChunkId chunk, const std::string& why) {
    repairs_.chunk_lost(chunk, why, /*delay_ok=*/false);
  };
  events.stripe_deleted = [this](StripeId stripe) { repairs_.stripe_deleted(stripe); };
  metaserver_.set_events(std::move(events));
}

void MetaDaemon::register_handlers() {
  rpc::Server& server = metaserver_.server();
  server.handle<proto::Empty, proto::RepairStatusResponse>(
      rpc::Method::kRepairStatus, [this](Context, proto::Empty) { return repair_status(); });
  server.handle<proto::RepairHistoryRequest, proto::RepairHistoryResponse>(
      rpc::Method::kRepairHistory,
      [this](Context, proto::RepairHistoryRequest request) { return repair_history(std::move(request)); });
  server.handle<proto::RunRepairRequest, proto::RunRepairResponse>(
      rpc::Method::kRunRepair, [this](Context context, proto::RunRepairRequest request) {
        return run_repair(context, std::move(request));
      });
}

asio::awaitable<Status> MetaDaemon::start() {
  KINTSUGI_CO_TRY(co_await metaserver_.start());
  repairs_.start();
  co_return Status{};
}

asio::awaitable<void> MetaDaemon::stop() {
  if (std::exchange(stopped_, true)) co_return;
  co_await client_.stop();
  co_await repairs_.stop();
  co_await metaserver_.stop();
}

asio::awaitable<Result<proto::RepairStatusResponse>> MetaDaemon::repair_status() {
  co_return repairs_.status();
}

asio::awaitable<Result<proto::RepairHistoryResponse>> MetaDaemon::repair_history(
    proto::RepairHistoryRequest request) {
  const uint32_t limit = request.limit() == 0 ? kMaxHistory : std::min(request.limit(), kMaxHistory);
  proto::RepairHistoryResponse response;
  for (proto::RepairRecord& record : repairs_.history(limit))
    *response.add_records() = std::move(record);
  co_return response;
}

asio::awaitable<Result<proto::RunRepairResponse>> MetaDaemon::run_repair(Context context,
                                                                         proto::RunRepairRequest request) {
  KINTSUGI_CO_ASSIGN(const repair_manager::Shape shape, repair_manager::parse_shape(request.shape()));
  const ChunkId chunk{StripeId{request.stripe_id()}, request.index()};
  proto::RunRepairResponse response;
  KINTSUGI_CO_ASSIGN(
      *response.mutable_record(),
      co_await repairs_.run(context, chunk, shape, request.slice_bytes(), ServerId{request.destination()}));
  co_return response;
}

}  // namespace kintsugi::metaserver
