#include "monitoring/daemon/cluster_watch.h"

#include <algorithm>
#include <utility>

#include "common/log/log.h"
#include "common/proto/formats.h"

namespace kintsugi::monitoring {

ClusterWatch::ClusterWatch(const runtime::Runtime& runtime, rpc::Client& client, runtime::Endpoint metaserver,
                           uint64_t monitor_id)
    : runtime_(runtime), client_(client), metaserver_(std::move(metaserver)), tasks_(runtime) {
  request_.set_monitor_id(monitor_id);
}

void ClusterWatch::start(std::string address, std::string http_address) {
  request_.set_address(std::move(address));
  request_.set_newest_format(proto::kNewestFormat);
  request_.set_http_address(std::move(http_address));
  started_ = true;
  tasks_.spawn(follow());
}

asio::awaitable<void> ClusterWatch::stop() {
  tasks_.request_stop();
  if (std::exchange(started_, false)) {
    proto::RegisterMonitorRequest leaving = request_;
    leaving.set_leaving(true);
    proto::RegisterMonitorResponse response;
    // Unheard it costs nothing: the lease ends.
    (void)co_await call(rpc::Method::kRegisterMonitor, leaving, response);
  }
  co_await tasks_.join();
}

template <class Request, class Response>
asio::awaitable<Status> ClusterWatch::call(rpc::Method method, const Request& request, Response& response) {
  const Context context = Context{}.with_deadline(runtime_.clock.now() + kCallLimit);
  co_return co_await client_.call(context, metaserver_, method, request, response);
}

asio::awaitable<void> ClusterWatch::follow() {
  std::string last_error;
  while (!tasks_.stopping()) {
    const Status status = co_await turn();
    // A lasting error is logged once.
    const std::string error = status.ok() ? std::string() : status.to_string();
    if (!error.empty() && error != last_error)
      log::warning("metaserver {}: {}", metaserver_.to_string(), error);
    last_error = error;
    const bool slept = co_await tasks_.sleep_for(answered_ ? kPoll : kFirstPoll);
    if (!slept) co_return;
  }
}

asio::awaitable<Status> ClusterWatch::turn() {
  proto::RegisterMonitorResponse lease;
  const Status registered = co_await call(rpc::Method::kRegisterMonitor, request_, lease);
  if (registered.code() == Code::kConflict && !replaced_)
    log::warning("{}: this monitor is no longer asked", registered.message());
  replaced_ = registered.code() == Code::kConflict;
  if (!registered.ok() && !replaced_) co_return registered.with_context("register");
  proto::ListServersResponse servers;
  KINTSUGI_CO_TRY(
      (co_await call(rpc::Method::kListServers, proto::Empty(), servers)).with_context("servers"));
  servers_ = std::move(servers);
  answered_ = runtime_.clock.now();
  // Before repairs: a repair manager that does not answer must not keep from us whether data is whole.
  proto::DiskFreeResponse space;
  KINTSUGI_CO_TRY((co_await call(rpc::Method::kDiskFree, proto::Empty(), space)).with_context("space"));
  space_ = std::move(space);
  space_told_ = runtime_.clock.now();
  proto::RepairStatusResponse repairs;
  const Status told = co_await call(rpc::Method::kRepairStatus, proto::Empty(), repairs);
  nobody_repairs_ = told.code() == Code::kNotFound ? told.message() : std::string();
  if (!told.ok() && nobody_repairs_.empty()) co_return told.with_context("repairs");
  repairs_ = std::move(repairs);
  repair_pace_.told(runtime_.clock.now(), repairs_);
  if (runtime_.clock.now() < names_wanted_until_) co_return co_await look_at_names();
  co_return Status{};
}

asio::awaitable<Status> ClusterWatch::look_at_names() {
  NamesWatch names{.known = true};
  KINTSUGI_CO_TRY((co_await call(rpc::Method::kListQuotas, proto::ListQuotasRequest(), names.quotas))
                      .with_context("quotas"));
  KINTSUGI_CO_TRY((co_await call(rpc::Method::kListSnapshots, proto::ListSnapshotsRequest(), names.snapshots))
                      .with_context("snapshots"));
  names_ = std::move(names);
  co_return Status{};
}

void ClusterWatch::tell_slow(const std::vector<proto::SlowServer>& slow) {
  request_.mutable_slow()->Assign(slow.begin(), slow.end());
}

bool ClusterWatch::gone_around(uint64_t server_id) const {
  return std::ranges::any_of(servers_.servers(), [&](const proto::ServerState& server) {
    return server.server_id() == server_id && server.has_slow();
  });
}

std::vector<model::ServerLife> ClusterWatch::lives() const {
  std::vector<model::ServerLife> lives;
  for (const proto::ServerState& server : servers_.servers()) {
    lives.push_back({.server_id = server.server_id(),
                     .address = server.address(),
                     .name = server.name(),
                     .liveness = server.liveness() == proto::ServerState::ALIVE ? model::Liveness::kAlive
                                 : server.liveness() == proto::ServerState::SUSPECT
                                     ? model::Liveness::kSuspect
                                     : model::Liveness::kDead,
                     .in_maintenance = server.maintenance_seconds() > 0});
  }
  return lives;
}

std::optional<Duration> ClusterWatch::answered_ago() const {
  return ago(answered_);
}

std::optional<Duration> ClusterWatch::space_told_ago() const {
  return ago(space_told_);
}

std::optional<Duration> ClusterWatch::ago(const std::optional<TimePoint>& then) const {
  if (!then) return {};
  return runtime_.clock.now() - *then;
}

}  // namespace kintsugi::monitoring
