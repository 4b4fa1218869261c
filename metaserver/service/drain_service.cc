#include "metaserver/service/drain_service.h"

#include "common/base/operator_limits.h"
#include "common/log/log.h"
#include "metaserver/schema/stripes.h"
#include "monitoring/sight/module.h"

namespace kintsugi::metaserver {
namespace {

constexpr sight::Site kDrain{"metaserver.drain_server"};
constexpr sight::Site kMaintain{"metaserver.maintain_server"};
constexpr sight::Site kRemove{"metaserver.remove_server"};
constexpr size_t kKeysABatch = 10'000;

Status unknown(ServerId server) {
  return {Code::kNotFound, fmt::format("no such server: {}", server)};
}

}  // namespace

void DrainService::register_on(rpc::Server& server) {
  server.handle<&DrainService::drain_server>(rpc::Method::kDrainServer, *this);
  server.handle<&DrainService::maintain_server>(rpc::Method::kMaintainServer, *this);
  server.handle<&DrainService::remove_server>(rpc::Method::kRemoveServer, *this);
}

asio::awaitable<Status> DrainService::drain_server(Context context, const proto::DrainServerRequest& request,
                                                   proto::Empty&) {
  sight::Module module{context, kDrain};
  const ServerId server{request.server_id()};
  Transaction transaction(store_.kv);
  const bool known = servers_.set_draining(transaction, server, request.drain());
  const Status done = known ? Status{} : unknown(server);
  KINTSUGI_CO_TRY(module.finish(co_await store_.finish(module.context(), done, transaction)));
  log::info("server {} is {}", servers_.name_of(server),
            request.drain() ? "being drained" : "no longer drained");
  co_return Status{};
}

asio::awaitable<Status> DrainService::maintain_server(Context context,
                                                      const proto::MaintainServerRequest& request,
                                                      proto::Empty&) {
  sight::Module module{context, kMaintain};
  const ServerId server{request.server_id()};
  if (request.seconds() > static_cast<uint64_t>(kMaxMaintenance.count()))
    co_return module.finish(
        {Code::kInvalidArgument,
         fmt::format("maintenance lasts {} hours at most: drain a server that is away for longer",
                     std::chrono::duration_cast<std::chrono::hours>(kMaxMaintenance).count())});
  const bool ends = request.seconds() == 0;
  const WallTime until = store_.runtime.clock.wall_now() + std::chrono::seconds(request.seconds());
  Transaction transaction(store_.kv);
  const bool known = servers_.set_maintenance(transaction, server, ends ? WallTime{} : until);
  const Status done = known ? Status{} : unknown(server);
  KINTSUGI_CO_TRY(module.finish(co_await store_.finish(module.context(), done, transaction)));
  host_->maintenance_changed(server);
  if (ends) {
    log::info("server {} is not in maintenance", servers_.name_of(server));
  } else {
    log::info("server {} is in maintenance for {} s: until then its loss starts no repairs but urgent ones",
              servers_.name_of(server), request.seconds());
  }
  co_return Status{};
}

Status DrainService::check_removable(ServerId server) const {
  const ServerRecord* record = servers_.find(server);
  if (!record) return unknown(server);
  const bool dead = record->liveness == proto::ServerState::DEAD;
  if (!dead && !record->stored.draining())
    return {Code::kConflict, fmt::format("server {} is in use: drain it first", servers_.name_of(server))};
  if (!holds_chunks(store_.kv, server)) return {};
  return {Code::kConflict, fmt::format("server {} is {}, but not all of its chunks are elsewhere yet",
                                       servers_.name_of(server), dead ? "dead" : "being drained")};
}

asio::awaitable<Status> DrainService::forget_garbage(Context context, ServerId server) {
  bool more = true;
  while (more) {
    Transaction transaction(store_.kv);
    size_t count = 0;
    transaction.scan(keys::all(keys::Kind::kGarbage, server.value),
                     [&](std::string_view key, std::string_view) {
                       transaction.remove(std::string(key));
                       return ++count < kKeysABatch;
                     });
    more = count == kKeysABatch;
    more = quarantine_.forget(transaction, server) || more;
    KINTSUGI_CO_TRY(co_await store_.finish(context, {}, transaction));
  }
  co_return Status{};
}

asio::awaitable<Status> DrainService::remove_server(Context context,
                                                    const proto::RemoveServerRequest& request,
                                                    proto::Empty&) {
  sight::Module module{context, kRemove};
  const ServerId server{request.server_id()};
  Status allowed = check_removable(server);
  // Its garbage may be forgotten: should the server ever join again, its block report tells what is there.
  if (allowed.ok()) allowed = co_await forget_garbage(module.context(), server);
  // Something may have been placed there while that was committed.
  if (allowed.ok()) allowed = check_removable(server);
  Transaction transaction(store_.kv);
  if (allowed.ok()) {
    servers_.remove(transaction, server);
    caches_.forget(server);
  }
  KINTSUGI_CO_TRY(module.finish(co_await store_.finish(module.context(), allowed, transaction)));
  log::info("server {} was removed", servers_.name_of(server));
  co_return Status{};
}

}  // namespace kintsugi::metaserver
