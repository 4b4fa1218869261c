#include "repair_manager/daemon/repair_daemon.h"

#include <algorithm>
#include <utility>

#include "common/log/log.h"
#include "repair_manager/manager/run_request.h"

namespace kintsugi::repair_manager {

RepairDaemon::RepairDaemon(const runtime::Runtime& runtime, RepairDaemonOptions options, rpc::Secret secret)
    : options_(std::move(options)),
      secret_(secret),
      id_(runtime.random.next() | 1),
      server_(runtime, secret, options_.recorder),
      client_(runtime, secret),
      view_(runtime, client_, secret_, options_.metaserver, id_),
      repairs_(runtime, options_.repairs, view_, options_.recorder),
      feed_(runtime, client_, options_.metaserver, id_, view_, repairs_) {
  register_handlers();
}

void RepairDaemon::register_handlers() {
  using rpc::Method;
  server_.handle<proto::Empty, proto::RepairStatusResponse>(
      Method::kRepairStatus, [this](Context, proto::Empty) { return status(); });
  server_.handle<proto::RepairHistoryRequest, proto::RepairHistoryResponse>(
      Method::kRepairHistory,
      [this](Context, proto::RepairHistoryRequest request) { return history(request.limit()); });
  server_.handle<proto::RunRepairRequest, proto::RunRepairResponse>(
      Method::kRunRepair, [this](Context context, proto::RunRepairRequest request) {
        return run_requested(repairs_, context, std::move(request));
      });
  server_.handle<proto::Empty, proto::Empty>(
      Method::kPing,
      [](Context, proto::Empty) -> asio::awaitable<Result<proto::Empty>> { co_return proto::Empty{}; });
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
  co_await feed_.stop();
  co_await repairs_.stop();
  co_await view_.stop();
  co_await server_.stop();
}

asio::awaitable<Result<proto::RepairStatusResponse>> RepairDaemon::status() {
  co_return repairs_.status();
}

asio::awaitable<Result<proto::RepairHistoryResponse>> RepairDaemon::history(uint32_t limit) {
  proto::RepairHistoryResponse response;
  for (proto::RepairRecord& record :
       repairs_.history(limit == 0 ? kMaxHistory : std::min(limit, kMaxHistory)))
    *response.add_records() = std::move(record);
  co_return response;
}

}  // namespace kintsugi::repair_manager
