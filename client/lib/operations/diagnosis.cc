#include "client/lib/operations/diagnosis.h"

#include <algorithm>

#include "common/proto/sight.pb.h"
#include "common/proto/verdicts.h"

namespace kintsugi::client {

using rpc::Method;

namespace {

/// Whoever looks for the cause of a hang does not wait for long.
constexpr Duration kDiagnoseLimit = std::chrono::seconds(2);

/// A monitor needs some seconds to be sure of what this client has just met.
void add_silent_metaserver(proto::DiagnoseResponse& response, const Status& asked) {
  if (std::ranges::any_of(response.verdicts(), proto::is_metaserver_silent)) return;
  proto::Verdict& verdict = *response.add_verdicts();
  verdict.set_kind(proto::Verdict::SILENT);
  verdict.set_server("metaserver");
  verdict.set_process_kind("metaserver");
  verdict.set_confidence(proto::Verdict::LIKELY);
  verdict.add_why(fmt::format("it does not answer this command: {}", asked.message()));
}

}  // namespace

asio::awaitable<Result<proto::DiagnoseResponse>> Diagnosis::diagnose(
    proto::DiagnoseRequest request, std::optional<runtime::Endpoint> known_monitor) {
  proto::FindMonitorResponse found;
  const Status asked = co_await cluster_.resources().meta.call_once(
      cluster_.context(), Method::kFindMonitor, proto::FindMonitorRequest(), found, kDiagnoseLimit);
  const auto told = runtime::Endpoint::parse(found.address());
  const std::optional<runtime::Endpoint> monitor = asked.ok() && told ? std::optional(*told) : known_monitor;
  proto::DiagnoseResponse response;
  Status answered{Code::kUnavailable, "no monitor runs"};
  if (monitor) {
    const Context limited = cluster_.context().with_deadline(cluster_.resources().now() + kDiagnoseLimit);
    answered =
        co_await cluster_.resources().rpc.call(limited, *monitor, Method::kDiagnose, request, response);
    if (answered.ok()) {
      if (!asked.ok()) add_silent_metaserver(response, asked);
      co_return response;
    }
    answered = answered.with_context(fmt::format("the monitor at {}", monitor->to_string()));
  }
  response.Clear();
  const Status reduced = co_await cluster_.resources().meta.call_once(cluster_.context(), Method::kDiagnose,
                                                                      request, response, kDiagnoseLimit);
  if (!reduced.ok() && !asked.ok()) {
    const std::string why =
        monitor ? answered.message() : "no monitor was asked (KINTSUGI_MONITOR can name one)";
    co_return Status{
        Code::kUnavailable,
        fmt::format("the metaserver cannot be reached, and nothing can be stored or found without it: {}; {}",
                    asked.message(), why)};
  }
  if (!reduced.ok())
    co_return Status{Code::kUnavailable,
                     fmt::format("{}; the metaserver: {}", answered.message(), reduced.message())};
  response.set_reduced(true);
  co_return response;
}

asio::awaitable<Result<proto::ChangeFaultsResponse>> Diagnosis::change_faults(
    std::optional<runtime::Endpoint> at, proto::ChangeFaultsRequest request) {
  proto::ChangeFaultsResponse response;
  const Context limited = cluster_.context().with_deadline(cluster_.resources().now() + MetaLink::kCallLimit);
  KINTSUGI_CO_TRY(co_await cluster_.resources().rpc.call(limited,
                                                         at.value_or(cluster_.resources().options.metaserver),
                                                         Method::kChangeFaults, request, response));
  co_return response;
}

asio::awaitable<Result<proto::TraceResponse>> Diagnosis::trace(std::optional<runtime::Endpoint> at,
                                                               proto::TraceRequest request) {
  proto::TraceResponse response;
  const Context limited = cluster_.context().with_deadline(cluster_.resources().now() + MetaLink::kCallLimit);
  KINTSUGI_CO_TRY(co_await cluster_.resources().rpc.call(
      limited, at.value_or(cluster_.resources().options.metaserver), Method::kTrace, request, response));
  co_return response;
}

}  // namespace kintsugi::client
