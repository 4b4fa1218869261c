#include "metaserver/service/format_service.h"

#include "common/base/assert.h"
#include "common/log/log.h"
#include "monitoring/sight/module.h"

namespace kintsugi::metaserver {
namespace {

constexpr sight::Site kFinalize{"metaserver.finalize"};

}  // namespace

void FormatService::register_on(rpc::Server& server) {
  server.handle<&FormatService::finalize>(rpc::Method::kFinalize, *this);
}

Status FormatService::load(const proto::StoredCluster& cluster) {
  KINTSUGI_TRY(proto::check_format(cluster.format_version(), "the metadata"));
  store_.format = cluster.format_version();
  if (store_.format < proto::kNewestFormat)
    log::info(
        "the cluster has format {}: once all daemons are upgraded, `kintsugi cluster finalize` makes it {}",
        store_.format, proto::kNewestFormat);
  return {};
}

Status FormatService::check_all_know(uint32_t format) const {
  for (const auto& [id, server] : servers_.servers()) {
    const std::string name = fmt::format("server {}", servers_.name_of(id));
    // One that is being stopped is suspect at once, and may come back with another program.
    if (!server.registered || server.liveness != proto::ServerState::ALIVE)
      return {Code::kConflict,
              fmt::format("{} is away, so that its version is not known: start it, or remove it "
                          "(kintsugi server remove); nothing has changed",
                          name)};
    KINTSUGI_TRY(proto::check_daemon_knows(server.newest_format, format, name));
  }
  KINTSUGI_TRY(host_->check_all_know(format));
  const auto monitor = monitor_.monitor();
  if (!monitor) return {};
  return proto::check_daemon_knows(monitor->newest_format, format,
                                   fmt::format("the monitor at {}", monitor->address));
}

asio::awaitable<Status> FormatService::finalize(Context context, const proto::Empty&,
                                                proto::FinalizeResponse& response) {
  sight::Module module{context, kFinalize};
  response.set_former_format(store_.format);
  response.set_format(proto::kNewestFormat);
  const Status known = check_all_know(proto::kNewestFormat);
  Transaction transaction(store_.kv);
  if (known.ok() && store_.format != proto::kNewestFormat) {
    auto cluster = transaction.get_message<proto::StoredCluster>(keys::cluster());
    KINTSUGI_ASSERT(cluster && "MetaServer::start() has read it or made it");
    cluster->set_format_version(proto::kNewestFormat);
    transaction.put_message(keys::cluster(), *cluster);
  }
  KINTSUGI_CO_TRY(module.finish(co_await store_.finish(module.context(), known, transaction)));
  // A daemon of the version before that joined meanwhile is refused at its next call.
  if (std::exchange(store_.format, proto::kNewestFormat) != proto::kNewestFormat)
    log::warning(
        "an operator finalized the cluster: it has format {}, and the version before cannot work on it",
        store_.format);
  co_return Status{};
}

}  // namespace kintsugi::metaserver
