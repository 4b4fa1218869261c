#include "metaserver/service/monitor_service.h"

#include "metaserver/cluster/server_registry.h"

namespace kintsugi::metaserver {

void MonitorService::register_on(rpc::Server& server) {
  using rpc::Method;
  server.handle<&MonitorService::register_monitor>(Method::kRegisterMonitor, *this);
  server.handle<&MonitorService::find_monitor>(Method::kFindMonitor, *this);
}

asio::awaitable<Status> MonitorService::register_monitor(Context,
                                                         const proto::RegisterMonitorRequest& request,
                                                         proto::RegisterMonitorResponse& response) {
  if (request.leaving()) {
    lease_.leave(request.monitor_id());
    co_return Status{};
  }
  if (request.monitor_id() == 0) co_return Status{Code::kInvalidArgument, "the request has no monitor id"};
  if (request.address().size() > kMaxAddressBytes || request.http_address().size() > kMaxAddressBytes)
    co_return Status{Code::kInvalidArgument, "address is too long"};
  const auto address = runtime::Endpoint::parse(request.address());
  if (!address) co_return address.error().with_context("address");
  KINTSUGI_CO_TRY(proto::check_daemon_format(request.newest_format(), store_.format));
  KINTSUGI_CO_TRY(lease_.renew({.id = request.monitor_id(),
                                .address = request.address(),
                                .http_address = request.http_address(),
                                .newest_format = request.newest_format()}));
  slow_.tell(request.slow());
  response.set_lease_ms(static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(MonitorLease::kLease).count()));
  co_return Status{};
}

asio::awaitable<Status> MonitorService::find_monitor(Context, const proto::FindMonitorRequest&,
                                                     proto::FindMonitorResponse& response) {
  if (const auto monitor = lease_.find()) {
    response.set_address(monitor->address);
    response.set_http_address(monitor->http_address);
  }
  co_return Status{};
}

}  // namespace kintsugi::metaserver
