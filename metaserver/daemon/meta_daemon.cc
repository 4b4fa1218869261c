#include "metaserver/daemon/meta_daemon.h"

#include <algorithm>
#include <utility>

#include "common/base/repair_shard.h"

namespace kintsugi::metaserver {

MetaDaemon::MetaDaemon(const runtime::Runtime& runtime, MetaDaemonOptions options, rpc::Secret secret,
                       KeyValueStore& store)
    : clock_(runtime.clock),
      secret_(secret),
      metaserver_(runtime, options.metaserver, secret, store),
      client_(runtime, secret),
      coordinator_(runtime, metaserver_.state().chunks.health, options.repairs),
      coordination_service_(metaserver_.state().store, metaserver_.state().chunks.map,
                            metaserver_.state().servers.caches, metaserver_.state().repairs.compactions,
                            metaserver_.repairs(), coordinator_),
      reports_(runtime, coordinator_.shards(), metaserver_.state().servers.registry.names(), client_) {
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
  coordinator_.start(metaserver_.made_cluster());
  co_return Status{};
}

asio::awaitable<void> MetaDaemon::stop() {
  if (std::exchange(stopped_, true)) co_return;
  // First what handlers wait for.
  co_await client_.stop();
  co_await coordinator_.stop();
  co_await metaserver_.stop();
}

asio::awaitable<Status> MetaDaemon::repair_status(Context context, const proto::Empty&,
                                                  proto::RepairStatusResponse& response) {
  // Zeros would look as if all were well.
  if (std::string nobody = coordinator_.nobody_repairs(); !nobody.empty())
    co_return Status{Code::kNotFound, std::move(nobody)};
  co_await reports_.status(context, response);
  response.set_repair_delay_seconds(to_seconds(coordinator_.repair_delay()));
  response.set_limit_bytes_per_second(metaserver_.state().servers.repair_limit.bytes_per_second());
  co_return Status{};
}

asio::awaitable<Status> MetaDaemon::repair_history(Context context,
                                                   const proto::RepairHistoryRequest& request,
                                                   proto::RepairHistoryResponse& response) {
  const uint32_t limit = request.limit() == 0 ? kMaxHistory : std::min(request.limit(), kMaxHistory);
  co_await reports_.history(context, limit, response);
  co_return Status{};
}

template <class Request, class Response>
asio::awaitable<Status> MetaDaemon::ask_owner(Context context, uint32_t shard, rpc::Method method,
                                              const Request& request, Response& response) {
  const auto owner = coordinator_.owner_address(shard);
  if (owner) co_return co_await client_.call(context, *owner, method, request, response);
  std::string nobody = coordinator_.nobody_repairs();
  co_return Status{Code::kUnavailable,
                   nobody.empty() ? "the stripe has no repair manager yet: try again" : std::move(nobody)};
}

asio::awaitable<Status> MetaDaemon::run_repair(Context context, const proto::RunRepairRequest& request,
                                               proto::RunRepairResponse& response) {
  // Whoever is responsible knows what it repairs already, and counts what the servers take part in.
  co_await coordinator_.await_shards();
  Status run = co_await ask_owner(context, repair_shard(StripeId{request.stripe_id()}),
                                  rpc::Method::kRunRepair, request, response);
  reports_.add_names(response);
  co_return run;
}

asio::awaitable<Status> MetaDaemon::plan_read(Context context, const proto::PlanReadRequest& request,
                                              proto::PlanReadResponse& response) {
  const ChunkId chunk{StripeId{request.stripe_id()}, request.index()};
  KINTSUGI_CO_TRY(
      rpc::check_capability(secret_, request.capability(), chunk, rpc::kOpRead, clock_.wall_now()));
  co_return co_await ask_owner(context, repair_shard(chunk.stripe), rpc::Method::kPlanRead, request,
                               response);
}

asio::awaitable<Status> MetaDaemon::finish_read(Context context, const proto::FinishReadRequest& request,
                                                proto::Empty& response) {
  co_return co_await ask_owner(context, shard_of_ticket(request.repair_id()), rpc::Method::kFinishRead,
                               request, response);
}

}  // namespace kintsugi::metaserver
