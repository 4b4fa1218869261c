#include "metaserver/daemon/meta_daemon.h"

#include <algorithm>
#include <utility>

#include "repair_manager/manager/run_request.h"

namespace kintsugi::metaserver {

MetaDaemon::MetaDaemon(const runtime::Runtime& runtime, MetaDaemonOptions options, rpc::Secret secret,
                       KeyValueStore& store)
    : clock_(runtime.clock),
      secret_(secret),
      metaserver_(runtime, options.metaserver, secret, store),
      client_(runtime, secret),
      view_(metaserver_, client_),
      repairs_(runtime, options.repairs, view_, options.metaserver.recorder),
      coordinator_(runtime, metaserver_, view_, repairs_, client_,
                   {.delay = options.repairs.delay, .max_per_server = options.repairs.max_per_server}) {
  connect_events();
  register_handlers();
  coordinator_.register_on(metaserver_.server());
}

void MetaDaemon::connect_events() {
  MetaServerEvents events;
  events.server_dead = [this](ServerId server) { coordinator_.server_dead(server); };
  events.server_returned = [this](ServerId server) { coordinator_.server_returned(server); };
  // Also of a new server, or with chunks that were missing.
  events.block_report_complete = [this](ServerId server) { coordinator_.server_returned(server); };
  events.chunk_lost = [this](ChunkId chunk, const std::string& why) { coordinator_.chunk_lost(chunk, why); };
  events.stripe_deleted = [this](StripeId stripe) { coordinator_.stripe_deleted(stripe); };
  events.move_wanted = [this](const WantedMove& move) { coordinator_.move_wanted(move); };
  events.moves_cancelled = [this](ServerId from) { coordinator_.moves_cancelled(from); };
  metaserver_.set_events(std::move(events));
}

void MetaDaemon::register_handlers() {
  rpc::Server& server = metaserver_.server();
  server.handle<proto::Empty, proto::RepairStatusResponse>(
      rpc::Method::kRepairStatus, [this](Context context, proto::Empty) { return repair_status(context); });
  server.handle<proto::RepairHistoryRequest, proto::RepairHistoryResponse>(
      rpc::Method::kRepairHistory, [this](Context context, proto::RepairHistoryRequest request) {
        return repair_history(context, std::move(request));
      });
  server.handle<proto::RunRepairRequest, proto::RunRepairResponse>(
      rpc::Method::kRunRepair, [this](Context context, proto::RunRepairRequest request) {
        return run_repair(context, std::move(request));
      });
  server.handle<proto::PlanReadRequest, proto::PlanReadResponse>(
      rpc::Method::kPlanRead,
      [this](Context, proto::PlanReadRequest request) { return plan_read(std::move(request)); });
  server.handle<proto::FinishReadRequest, proto::Empty>(
      rpc::Method::kFinishRead,
      [this](Context, proto::FinishReadRequest request) { return finish_read(std::move(request)); });
}

asio::awaitable<Status> MetaDaemon::start() {
  KINTSUGI_CO_TRY(co_await metaserver_.start());
  repairs_.start();
  coordinator_.start();
  co_return Status{};
}

asio::awaitable<void> MetaDaemon::stop() {
  if (std::exchange(stopped_, true)) co_return;
  co_await client_.stop();
  co_await coordinator_.stop();
  co_await repairs_.stop();
  co_await metaserver_.stop();
}

asio::awaitable<Result<proto::RepairStatusResponse>> MetaDaemon::repair_status(Context context) {
  co_return co_await coordinator_.status(context);
}

asio::awaitable<Result<proto::RepairHistoryResponse>> MetaDaemon::repair_history(
    Context context, proto::RepairHistoryRequest request) {
  const uint32_t limit = request.limit() == 0 ? kMaxHistory : std::min(request.limit(), kMaxHistory);
  co_return co_await coordinator_.history(context, limit);
}

asio::awaitable<Result<proto::RunRepairResponse>> MetaDaemon::run_repair(Context context,
                                                                         proto::RunRepairRequest request) {
  // Whoever is responsible knows what it repairs already, and counts what the servers take part in.
  if (const auto owner = coordinator_.owner_address(StripeId{request.stripe_id()}))
    co_return co_await client_.call<proto::RunRepairResponse>(context, *owner, rpc::Method::kRunRepair,
                                                              request);
  co_return co_await repair_manager::run_requested(repairs_, context, std::move(request));
}

asio::awaitable<Result<proto::PlanReadResponse>> MetaDaemon::plan_read(proto::PlanReadRequest request) {
  const ChunkId chunk{StripeId{request.stripe_id()}, request.index()};
  KINTSUGI_CO_TRY(
      rpc::check_capability(secret_, request.capability(), chunk, rpc::kOpRead, clock_.wall_now()));
  co_return repairs_.plan_read(request);
}

asio::awaitable<Result<proto::Empty>> MetaDaemon::finish_read(proto::FinishReadRequest request) {
  KINTSUGI_CO_TRY(repairs_.finish_read(request));
  co_return proto::Empty{};
}

}  // namespace kintsugi::metaserver
