#include "metaserver/service/session_service.h"

#include "monitoring/sight/module.h"

namespace kintsugi::metaserver {
namespace {

constexpr sight::Site kKeepSession{"metaserver.keep_session", {"hold", "release"}};
constexpr sight::Site kAwaitRecalls{"metaserver.await_recalls", {}, {"recalls"}};
constexpr sight::Site kLock{"metaserver.lock"};

constexpr Duration kPoll = std::chrono::seconds(25);  ///< one call waits for news no longer

}  // namespace

void SessionService::register_on(rpc::Server& server) {
  using rpc::Method;
  server.handle<&SessionService::keep_session>(Method::kKeepSession, *this);
  server.handle<&SessionService::await_recalls>(Method::kAwaitRecalls, *this);
  server.handle<&SessionService::lock>(Method::kLock, *this);
}

asio::awaitable<Status> SessionService::keep_session(Context context,
                                                     const proto::KeepSessionRequest& request,
                                                     proto::KeepSessionResponse& response) {
  sight::Module module{context, kKeepSession, {double(request.hold_size()), double(request.release_size())}};
  Transaction transaction(store_.kv);
  const Result<Clients::Durable> kept = clients_.keep(request, response, transaction);
  for (const ServerId server : slow_.list())
    response.add_slow_servers(server.value);
  const Status status = co_await store_.finish(module.context(), kept ? Status{} : kept.error(), transaction);
  if (!status.ok()) co_return module.finish(status);
  clients_.committed(request.session(), *kept);
  co_return module.finish(status);
}

asio::awaitable<Status> SessionService::await_recalls(Context context,
                                                      const proto::AwaitRecallsRequest& request,
                                                      proto::AwaitRecallsResponse& response) {
  sight::Module module{context, kAwaitRecalls};
  // One that has to tell what it had must do so before it is of any use to wait.
  const bool tell = clients_.sessions.has_to_tell(request.session());
  response.set_tell_all(tell);
  if (!tell) {
    const sight::Wait wait(module.context(), sight::WaitKind::kIdle);
    const TimePoint give_up = store_.runtime.clock.now() + kPoll;
    while (true) {
      for (const InodeId inode : clients_.leases.take_recalls(request.session()))
        response.add_recall(inode.value);
      const bool changed = clients_.promises.tell(request.session(), request.after(), response);
      if (changed || response.recall_size() > 0 || store_.stopping) break;
      if (!co_await clients_.sessions.await_news(request.session(), give_up)) break;
    }
  }
  module.output(0, response.recall_size());
  co_return module.finish({});
}

Status SessionService::may_ask_for_lock(const proto::LockRequest& request) const {
  const uint64_t session = request.lock().session();
  const bool gives_back = request.lock().type() == proto::FileLock::NONE;
  // What is known of locks is not complete until those that had some before a restart have told.
  if (clients_.sessions.has_to_tell(session) ||
      (!gives_back && clients_.sessions.others_have_to_tell(session, Leases::kTakeOver)))
    return {Code::kUnavailable, "the metaserver has just started and asks clients for their locks"};
  return {};
}

Status SessionService::take_lock(const proto::LockRequest& request, proto::LockResponse& response) {
  const InodeId id{request.inode()};
  const uint64_t session = request.lock().session();
  const bool gives_back = request.lock().type() == proto::FileLock::NONE;
  const std::vector<proto::FileLock> others =
      clients_.locks.conflicts(id, request.lock(), request.whole_file());
  response.set_granted(others.empty());
  if (!others.empty()) {
    *response.mutable_conflict() = others.front();
    // Whoever knows a session's id could end it, and a reader asks for locks, too.
    if (others.front().session() != session) response.mutable_conflict()->clear_session();
    if (request.waits() && !request.whole_file() && !clients_.lock_waits.may_wait(request.lock(), others))
      return {Code::kDeadlock, "cannot be locked: the holder of the lock waits for one of yours (deadlock)"};
    return {};
  }
  if (request.test_only()) return {};
  clients_.lock_waits.ended(request.lock());
  const Result<Place> place = names_.places.of(id);
  const bool exists = place && place->view().get(keys::inode(place->id()));
  if (!exists && !gives_back) return {Code::kStale, "does not exist any more"};
  KINTSUGI_ASSIGN(const bool granted, clients_.locks.set(id, request.lock(), request.whole_file()));
  response.set_granted(granted);
  if (exists && !gives_back) clients_.sessions.hold(session, id);
  return {};
}

asio::awaitable<Status> SessionService::lock(Context context, const proto::LockRequest& request,
                                             proto::LockResponse& response) {
  sight::Module module{context, kLock};
  // While another session has the lease, it has locks that are not known here.
  Status taken = may_ask_for_lock(request);
  if (taken.ok() && request.lock().type() != proto::FileLock::NONE)
    taken =
        co_await clients_.leases.settle(module.context(), InodeId{request.inode()}, request.lock().session());
  // The session may have ended while others were waited for.
  if (taken.ok()) taken = may_ask_for_lock(request);
  if (taken.ok()) taken = take_lock(request, response);
  co_return module.finish(co_await store_.finish_read(module.context(), about_inode(taken, request.inode())));
}

}  // namespace kintsugi::metaserver
