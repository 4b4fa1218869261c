#include "metaserver/sessions/clients.h"

#include "metaserver/namespace/changes.h"

namespace kintsugi::metaserver {

void Clients::load(const Reader& reader) {
  sessions.load(reader);
  if (sessions.count() > 0) promises.started();
}

Result<Clients::Durable> Clients::keep(const proto::KeepSessionRequest& request,
                                       proto::KeepSessionResponse& response, Transaction& transaction) {
  const uint64_t id = request.session();
  const bool unknown = sessions.has_to_tell(id);
  KINTSUGI_TRY(sessions.keep(request, response));
  if (request.ends()) {
    // A session that has ended by itself is not waited for by the next process of the metaserver either.
    forget_changes(transaction, id);
    end(id, false);
    return Durable{};
  }
  promises.session_is(id, request.believes());
  promises.session_heard(id, request.heard());
  // While it had the lease its kernel was told of the inode, and of names in it, without a call.
  for (const uint64_t inode : request.give_back())
    promises.note_promise(id, InodeId{inode}, Promises::kAttributes | Promises::kNames);
  // Before anything else runs: others do not wait any more for a session that has told.
  leased_locks_.keep(request, unknown, sessions.is_doubtful(id), response);
  leases.keep(request, response);
  Durable durable;
  // After a restart the metaserver must know that this session may still tell what it holds.
  durable.noted = !sessions.is_noted(id);
  if (durable.noted) note_session(transaction, id);
  bool lost = response.lost_size() > 0 || (!request.ask_locks() && response.lock_size() > 0);
  // Only the last page says what is to be noted: what an earlier one noted would make the next ones doubtful.
  if (request.generation() != 0) lost = sessions.pages_lost(id, lost);
  // Who has not told everything yet may not know of it either.
  const bool knows = !lost && !sessions.has_to_tell(id);
  if (!request.more() && (lost || knows) && lost != sessions.has_lost(id)) durable.lost = lost;
  // One that comes back is there again, and may only tell later what it had: a metaserver that starts until then must
  // not believe it.
  const bool comes_back = durable.noted && (sessions.ended_by_silence(id) || !request.all());
  if (comes_back && !knows) durable.lost = true;
  if (durable.lost) metaserver::note_loss(transaction, id, *durable.lost);
  // Whoever takes a lease away from here on notes that anew, behind this in the log.
  if (durable.lost == false) sessions.lost_something(id, false);
  return durable;
}

void Clients::committed(uint64_t session, const Durable& durable) {
  if (durable.noted) sessions.noted(session);
  if (durable.lost) sessions.lost_something(session, *durable.lost);
}

void Clients::end(uint64_t id, bool by_silence) {
  ClientSession* session = sessions.find(id);
  if (session == nullptr) return;
  locks.session_ended(id);
  leases.ended(*session);
  promises.ended(id, by_silence);
  sessions.end(id, by_silence);
}

bool Clients::end_if_silent(uint64_t session) {
  if (!sessions.is_silent(session)) return false;
  end(session, true);
  return true;
}

asio::awaitable<Status> Clients::note_loss(uint64_t session) {
  Transaction transaction(store_);
  metaserver::note_loss(transaction, session, true);
  const Status noted = co_await store_.commit(transaction.take());
  if (noted.ok()) sessions.lost_something(session, true);
  co_return noted;
}

void Clients::stop() {
  leases.stop();
  promises.stop();
  for (auto& [id, session] : sessions.all())
    session.news->notify_all();
}

}  // namespace kintsugi::metaserver
