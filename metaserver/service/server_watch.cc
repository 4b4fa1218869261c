#include "metaserver/service/server_watch.h"

#include "common/log/log.h"
#include "common/proto/types.pb.h"

namespace kintsugi::metaserver {

ServerWatch::ServerWatch(const runtime::Runtime& runtime, const rpc::Secret& secret, ServerRegistry& servers)
    : servers_(servers),
      clock_(runtime.clock),
      client_(runtime, secret, {.dial_limit = kCallLimit}),
      turns_(runtime, kCallsAtOnce),
      tasks_(runtime) {}

void ServerWatch::heard(ServerId server, uint64_t connection) {
  if (connection == 0) return;
  uint64_t& last = last_[server];
  if (last == connection) return;
  if (const auto before = by_connection_.find(last); before != by_connection_.end()) {
    before->second.erase(server);
    if (before->second.empty()) by_connection_.erase(before);
  }
  last = connection;
  by_connection_[connection].insert(server);
}

void ServerWatch::connection_ended(uint64_t connection) {
  const auto found = by_connection_.find(connection);
  if (found == by_connection_.end()) return;
  for (ServerId server : found->second) {
    last_.erase(server);
    tasks_.spawn(look_after(server));
  }
  by_connection_.erase(found);
}

asio::awaitable<void> ServerWatch::look_after(ServerId server) {
  const Status turn = co_await turns_.acquire(clock_.now() + kTurnLimit);
  if (!turn.ok()) co_return;
  // A word over another connection since then proves that it lives.
  if (!tasks_.stopping() && !last_.contains(server)) {
    const Status answered = co_await call(server);
    if (!answered.ok() && !tasks_.stopping() && !last_.contains(server))
      servers_.suspect(server, answered.message());
  }
  turns_.release();
}

asio::awaitable<Status> ServerWatch::call(ServerId server) {
  const ServerRecord* record = servers_.find(server);
  if (!record || record->liveness != proto::ServerState::ALIVE) co_return Status{};
  KINTSUGI_CO_ASSIGN(const auto address, runtime::Endpoint::parse(record->stored.address()));
  const Context context = Context{}.with_deadline(clock_.now() + kCallLimit);
  const proto::Empty request;
  proto::Empty response;
  Status answered = co_await client_.call(context, address, rpc::Method::kPing, request, response);
  // A connection that an earlier call left open may have broken together with the server's: only a new one proves it.
  if (answered.code() == Code::kUnavailable)
    answered = co_await client_.call(context, address, rpc::Method::kPing, request, response);
  co_return answered;
}

asio::awaitable<void> ServerWatch::stop() {
  tasks_.request_stop();
  co_await client_.stop();
  co_await tasks_.join();
}

}  // namespace kintsugi::metaserver
