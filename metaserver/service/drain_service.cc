#include "metaserver/service/drain_service.h"

#include "common/log/log.h"
#include "monitoring/sight/module.h"

namespace kintsugi::metaserver {
namespace {

constexpr sight::Site kDrain{"metaserver.drain_server"};
constexpr sight::Site kRemove{"metaserver.remove_server"};
constexpr size_t kKeysABatch = 10'000;

Status unknown(ServerId server) {
  return {Code::kNotFound, fmt::format("no such server: {}", server)};
}

}  // namespace

void DrainService::register_on(rpc::Server& server) {
  using rpc::Method;
  server.handle<proto::DrainServerRequest, proto::Empty>(
      Method::kDrainServer,
      [this](Context context, proto::DrainServerRequest r) { return drain_server(context, std::move(r)); });
  server.handle<proto::RemoveServerRequest, proto::Empty>(
      Method::kRemoveServer,
      [this](Context context, proto::RemoveServerRequest r) { return remove_server(context, std::move(r)); });
}

asio::awaitable<Result<proto::Empty>> DrainService::drain_server(Context context,
                                                                 proto::DrainServerRequest request) {
  sight::Module module{context, kDrain};
  const ServerId server{request.server_id()};
  Transaction transaction(core_.store);
  const bool known = core_.servers.set_draining(transaction, server, request.drain());
  const Status done = known ? Status{} : unknown(server);
  KINTSUGI_CO_TRY(module.finish(co_await core_.finish(module.context(), done, transaction)));
  log::info("server {} is {}", server, request.drain() ? "being drained" : "no longer drained");
  co_return proto::Empty{};
}

Status DrainService::check_removable(ServerId server) const {
  const ServerRecord* record = core_.servers.find(server);
  if (!record) return unknown(server);
  const bool dead = record->liveness == proto::ServerState::DEAD;
  if (!dead && !record->stored.draining())
    return {Code::kConflict, fmt::format("server {} is in use: drain it first", server)};
  if (!core_.holds_chunks(server)) return {};
  return {Code::kConflict, fmt::format("server {} is {}, but not all of its chunks are elsewhere yet", server,
                                       dead ? "dead" : "being drained")};
}

asio::awaitable<Status> DrainService::forget_garbage(Context context, ServerId server) {
  bool more = true;
  while (more) {
    Transaction transaction(core_.store);
    size_t count = 0;
    transaction.scan(keys::all(keys::Kind::kGarbage, server.value),
                     [&](std::string_view key, std::string_view) {
                       transaction.remove(std::string(key));
                       return ++count < kKeysABatch;
                     });
    more = count == kKeysABatch;
    KINTSUGI_CO_TRY(co_await core_.finish(context, transaction));
  }
  co_return Status{};
}

asio::awaitable<Result<proto::Empty>> DrainService::remove_server(Context context,
                                                                  proto::RemoveServerRequest request) {
  sight::Module module{context, kRemove};
  const ServerId server{request.server_id()};
  Status allowed = check_removable(server);
  // Should it ever join again, its block report tells what is there.
  if (allowed.ok()) allowed = co_await forget_garbage(module.context(), server);
  if (allowed.ok()) allowed = check_removable(server);
  Transaction transaction(core_.store);
  if (allowed.ok()) {
    core_.servers.remove(transaction, server);
    core_.caches.forget(server);
  }
  KINTSUGI_CO_TRY(module.finish(co_await core_.finish(module.context(), allowed, transaction)));
  log::info("server {} was removed", server);
  co_return proto::Empty{};
}

}  // namespace kintsugi::metaserver
