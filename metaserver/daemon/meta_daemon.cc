#include "metaserver/daemon/meta_daemon.h"

#include <algorithm>
#include <utility>

namespace kintsugi::metaserver {

MetaDaemon::MetaDaemon(const runtime::Runtime& runtime, MetaDaemonOptions options, rpc::Secret secret,
                       KeyValueStore& store)
    : clock_(runtime.clock),
      secret_(secret),
      metaserver_(runtime, options.metaserver, secret, store),
      client_(runtime, secret),
      view_(metaserver_.state(), metaserver_.repairs(), client_),
      repairs_(runtime, options.repairs, view_, options.metaserver.recorder),
      coordinator_(runtime, metaserver_.state(), repairs_, options.repairs.delay),
      coordination_service_(
          metaserver_.state(), metaserver_.repairs(), view_, coordinator_,
          {.delay = options.repairs.delay, .max_per_server = options.repairs.max_per_server}),
      reports_(runtime, coordinator_.shards(), repairs_, metaserver_.state().servers.names(), client_) {
  metaserver_.set_host(coordinator_);
  register_handlers();
  coordination_service_.register_on(metaserver_.server());
}

void MetaDaemon::register_handlers() {
  using rpc::Method;
  rpc::Server& server = metaserver_.server();
  server.handle<&MetaDaemon::repair_status>(Method::kRepairStatus, *this);
  server.handle<&MetaDaemon::repair_history>(Method::kRepairHistory, *this);
  server.handle<&MetaDaemon::run_repair>(Method::kRunRepair, *this);
  server.handle<&MetaDaemon::plan_read>(Method::kPlanRead, *this);
  server.handle<&MetaDaemon::finish_read>(Method::kFinishRead, *this);
}

asio::awaitable<Status> MetaDaemon::start() {
  KINTSUGI_CO_TRY(co_await metaserver_.start());
  repairs_.start();
  coordinator_.start();
  co_return Status{};
}

asio::awaitable<void> MetaDaemon::stop() {
  if (std::exchange(stopped_, true)) co_return;
  // First the client: running repairs wait for its calls, and end when those break.
  co_await client_.stop();
  co_await coordinator_.stop();
  co_await repairs_.stop();
  co_await metaserver_.stop();
}

asio::awaitable<Status> MetaDaemon::repair_status(Context context, const proto::Empty&,
                                                  proto::RepairStatusResponse& response) {
  co_await reports_.status(context, response);
  co_return Status{};
}

asio::awaitable<Status> MetaDaemon::repair_history(Context context,
                                                   const proto::RepairHistoryRequest& request,
                                                   proto::RepairHistoryResponse& response) {
  const uint32_t limit = request.limit() == 0 ? kMaxHistory : std::min(request.limit(), kMaxHistory);
  co_await reports_.history(context, limit, response);
  co_return Status{};
}

asio::awaitable<Status> MetaDaemon::run_repair(Context context, const proto::RunRepairRequest& request,
                                               proto::RunRepairResponse& response) {
  // Whoever is responsible knows what it repairs already, and counts what the servers take part in.
  const auto owner = coordinator_.owner_address(StripeId{request.stripe_id()});
  Status run = owner ? co_await client_.call(context, *owner, rpc::Method::kRunRepair, request, response)
                     : co_await repairs_.run_repair(context, request, response);
  reports_.add_names(response);
  co_return run;
}

asio::awaitable<Status> MetaDaemon::plan_read(Context, const proto::PlanReadRequest& request,
                                              proto::PlanReadResponse& response) {
  const ChunkId chunk{StripeId{request.stripe_id()}, request.index()};
  KINTSUGI_CO_TRY(
      rpc::check_capability(secret_, request.capability(), chunk, rpc::kOpRead, clock_.wall_now()));
  co_return extract(repairs_.plan_read(request), response);
}

asio::awaitable<Status> MetaDaemon::finish_read(Context, const proto::FinishReadRequest& request,
                                                proto::Empty&) {
  co_return repairs_.finish_read(request);
}

}  // namespace kintsugi::metaserver
