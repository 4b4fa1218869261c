#include "repair_manager/daemon/repair_daemon.h"

#include <algorithm>
#include <utility>

#include "common/log/log.h"
#include "common/rpc/placed_stripes.h"
#include "common/rpc/token.h"
#include "tracing/agent/trace_service.h"

namespace kintsugi::repair_manager {

RepairDaemon::RepairDaemon(const runtime::Runtime& runtime, RepairDaemonOptions options, rpc::Secret secret)
    : runtime_(runtime),
      options_(std::move(options)),
      secret_(secret),
      id_(runtime.random.next() | 1),
      server_(runtime, secret, options_.recorder),
      client_(runtime, secret),
      view_(runtime, client_, secret_, options_.metaserver, id_),
      repairs_(runtime, options_.repairs, view_, options_.recorder),
      compactor_(runtime, {.metaserver = options_.metaserver, .recorder = options_.recorder}, secret, *this),
      feed_(runtime, client_, options_.metaserver, id_, view_, {repairs_, compactor_}),
      questions_(runtime) {
  register_handlers();
}

void RepairDaemon::register_handlers() {
  using rpc::Method;
  server_.handle<&RepairDaemon::status>(Method::kRepairStatus, *this);
  server_.handle<&RepairDaemon::history>(Method::kRepairHistory, *this);
  server_.handle<&RepairDaemon::run_repair>(Method::kRunRepair, *this);
  server_.handle<&RepairDaemon::plan_read>(Method::kPlanRead, *this);
  server_.handle<&RepairDaemon::finish_read>(Method::kFinishRead, *this);
  server_.handle<&RepairDaemon::ping>(Method::kPing, *this);
  tracing::TraceService::register_on(server_);
  // A plan has capabilities for the helpers' chunks. The metaserver passes on requests of those who showed one for the chunk
  // that they read.
  server_.admit_tokens_by([](const rpc::Principal& by, Method method, google::protobuf::MessageLite&) {
    const bool plans = method == Method::kPlanRead || method == Method::kFinishRead;
    return plans ? Status{Code::kPermissionDenied, by.text() + " has to ask the metaserver for this"}
                 : Status{};
  });
}

Status RepairDaemon::start() {
  KINTSUGI_TRY(server_.start(options_.listen));
  runtime::Endpoint address = endpoint();
  if (!options_.advertise.empty()) address.host = options_.advertise;
  log::info("repair manager {} serves at {}", id_, address.to_string());
  repairs_.start();
  feed_.start(address.to_string(), options_.http_address);
  started_ = true;
  return {};
}

asio::awaitable<void> RepairDaemon::stop() {
  if (std::exchange(started_, false)) co_await feed_.leave();
  co_await client_.stop();
  co_await questions_.stop();
  co_await feed_.stop();
  co_await compactor_.stop();
  co_await repairs_.stop();
  co_await view_.stop();
  co_await server_.stop();
}

bool RepairDaemon::repairs_first() const {
  const RepairCounts counts = repairs_.counts();
  return counts.queued + counts.running > repairs_.moves();
}

uint64_t RepairDaemon::compaction_bandwidth() const {
  // No server sends more of a window than its bytes, or receives more: so none moves more than it lets repairs do.
  uint64_t least = 0;
  for (const ServerView& server : view_.servers()) {
    const uint64_t limit = server.repair_limit_bytes_per_second;
    if (limit > 0 && (least == 0 || limit < least)) least = limit;
  }
  return least == 0 ? 0 : std::max<uint64_t>(1, least / feed_.managers());
}

void RepairDaemon::find_stripes(std::vector<uint64_t> server_ids, TellStripes tell) {
  uint64_t chunks = 0;
  for (const proto::ServerState& server : view_.server_states())
    if (std::ranges::count(server_ids, server.server_id()) > 0) chunks += server.chunks();
  if (chunks > rpc::kMaxPlacedStripes) return tell({});
  questions_.spawn(ask_for_stripes(std::move(server_ids), std::move(tell)));
}

asio::awaitable<void> RepairDaemon::ask_for_stripes(std::vector<uint64_t> server_ids, TellStripes tell) {
  const Context context = Context{}.with_deadline(runtime_.clock.now() + kPlacesLimit);
  const auto ask = [&](rpc::Method method, const auto& request, auto& response) {
    return client_.call(context, options_.metaserver, method, request, response);
  };
  auto stripes = co_await rpc::placed_stripes(ask, std::move(server_ids));
  tell(stripes ? std::optional(std::move(*stripes)) : std::nullopt);
}

asio::awaitable<Status> RepairDaemon::status(Context, const proto::Empty&,
                                             proto::RepairStatusResponse& response) {
  response = repairs_.status();
  co_return Status{};
}

asio::awaitable<Status> RepairDaemon::history(Context, const proto::RepairHistoryRequest& request,
                                              proto::RepairHistoryResponse& response) {
  const uint32_t limit = request.limit() == 0 ? kMaxHistory : std::min(request.limit(), kMaxHistory);
  for (proto::RepairRecord& record : repairs_.history(limit))
    *response.add_records() = std::move(record);
  co_return Status{};
}

asio::awaitable<Status> RepairDaemon::run_repair(Context context, const proto::RunRepairRequest& request,
                                                 proto::RunRepairResponse& response) {
  co_await feed_.await_stripe(StripeId{request.stripe_id()});
  KINTSUGI_CO_TRY(co_await view_.refresh_servers(context));
  repairs_.servers_changed();
  co_return co_await repairs_.run_repair(context, request, response);
}

asio::awaitable<Status> RepairDaemon::plan_read(Context context, const proto::PlanReadRequest& request,
                                                proto::PlanReadResponse& response) {
  const StripeId stripe{request.stripe_id()};
  if (!view_.mine(stripe))
    co_return Status{Code::kUnavailable, fmt::format("stripe {} is not this repair manager's", stripe)};
  KINTSUGI_CO_TRY(co_await view_.fetch(context, {stripe}));
  Result<proto::PlanReadResponse> plan = repairs_.plan_read(request);
  if (!plan) co_return plan.error();
  response = std::move(*plan);
  co_return Status{};
}

asio::awaitable<Status> RepairDaemon::finish_read(Context, const proto::FinishReadRequest& request,
                                                  proto::Empty&) {
  co_return repairs_.finish_read(request);
}

asio::awaitable<Status> RepairDaemon::ping(Context, const proto::Empty&, proto::Empty&) {
  co_return Status{};
}

}  // namespace kintsugi::repair_manager
