#include "client/lib/leases/session.h"

#include "common/base/assert.h"
#include "common/log/log.h"
#include "common/runtime/backoff.h"
#include "monitoring/sight/module.h"

namespace kintsugi::client {
namespace {

constexpr Duration kTellLimit = 5s;
constexpr Duration kRecallsLimit = 40s;  ///< longer than a metaserver lets such a call wait
constexpr Duration kFirstPause = 100ms;
constexpr Duration kSilentFor = 10s;  ///< the log says it after so much silence

constexpr sight::Site kKeep{"client.keep_session"};

}  // namespace

Session::Session(Resources& resources, LeaseUser& user, ChangeJournal* journal,
                 std::span<std::byte> own_locks)
    : resources_(resources),
      user_(user),
      numbers_(resources.runtime, journal),
      locks_(numbers_.session(), numbers_.takes_over(), own_locks),
      telling_(resources.runtime, 1),
      recalls_(resources.runtime, resources.secret),
      tasks_(resources.runtime) {}

Session::~Session() {
  KINTSUGI_ASSERT(tasks_.running() == 0);
}

void Session::start(bool believes) {
  believes_ = believes;
  heard_ = resources_.now();
  tasks_.spawn(keep());
  tasks_.spawn(await_recalls());
}

asio::awaitable<void> Session::stop(bool keep) {
  tasks_.request_stop();
  co_await recalls_.stop();
  co_await tasks_.join();
  if (keep) co_return;
  proto::KeepSessionRequest request;
  request.set_ends(true);
  bool tell_all = false;
  // Only a courtesy: the metaserver ends sessions that say nothing.
  (void)co_await send(resources_.context(), std::move(request), tell_all);
}

// ---- telling

asio::awaitable<Status> Session::send(Context context, proto::KeepSessionRequest request, bool& tell_all) {
  request.set_session(id());
  request.set_number(uint64_t{numbers_.generation()} << 32 | ++told_);
  if (context.recorder != nullptr) request.set_process(context.recorder->process());
  if (!request.ends()) {
    request.set_ask_locks(locks_.asks());
    request.set_believes(believes_);
    request.set_heard(changes_.last_heard());
  }
  proto::KeepSessionResponse response;
  const Status status =
      co_await resources_.meta.call_once(context, rpc::Method::kKeepSession, request, response, kTellLimit);
  tell_all = status.ok() && response.tell_all();
  if (status.ok()) take(request.ask_locks(), response);
  co_return status;
}

void Session::take(bool asked_locks, const proto::KeepSessionResponse& response) {
  resources_.health.told_slow(response.slow_servers());
  lost(response.lost());
  locks_.take(asked_locks, response);
}

void Session::lost(const google::protobuf::RepeatedField<uint64_t>& inodes) {
  const std::vector<uint64_t> news = leases_.lost(inodes);
  if (news.empty()) return;
  if (has_user_) return user_.on_lost(news);
  for (const uint64_t inode : news)
    leases_.give_back(inode);
}

Session::Everything Session::everything() {
  Everything all;
  // The number of the first page (send()).
  all.generation = uint64_t{numbers_.generation()} << 32 | (told_ + 1);
  all.holds = held_.begin_to_tell_all();
  all.leases = leases_.all();
  return all;
}

void Session::add_page(Everything& all, proto::KeepSessionRequest& request) const {
  request.set_all(true);
  request.set_generation(all.generation);
  // All locks fit one message (OwnLocks), and those that another process had are asked for only once.
  if (std::exchange(all.locks, false)) locks_.add_all(request);
  size_t named = 0;
  for (; !all.holds.empty() && named < kMaxInodesAtOnce; ++named, all.holds.pop_front())
    if (held_.is_held(all.holds.front())) request.add_hold(all.holds.front());
  for (; !all.leases.empty() && named < kMaxInodesAtOnce; ++named, all.leases.pop_front())
    if (leases_.is_to_be_told(all.leases.front())) request.add_lease(all.leases.front());
  request.set_more(!all.holds.empty() || !all.leases.empty());
}

void Session::add_given_back(proto::KeepSessionRequest& request, bool with_locks) {
  const std::set<uint64_t>& inodes = leases_.some_given_back(kMaxInodesAtOnce);
  request.mutable_give_back()->Add(inodes.begin(), inodes.end());
  locks_.add_given_back(request, inodes, with_locks);
}

asio::awaitable<Status> Session::tell_page(Context context, proto::KeepSessionRequest request,
                                           bool& tell_all) {
  const TimePoint sent = resources_.now();
  const bool more = request.more();
  const Status status = co_await send(context, std::move(request), tell_all);
  // After an error the inodes are told once more, and until then none of their leases is asked for.
  if (status.ok()) {
    locks_.told_given_back(leases_.giving_back());
    leases_.told_given_back();
  }
  // Before the last page the metaserver cannot say otherwise than that it does not know everything.
  if (status.ok() && !tell_all && !more) locks_.heard(sent);
  co_return status;
}

asio::awaitable<Status> Session::tell_all_pages(Context context, bool& tell_all) {
  Everything all = everything();
  Status status;
  bool more = true;
  while (status.ok() && more) {
    proto::KeepSessionRequest request;
    const bool is_first = all.locks;
    add_page(all, request);
    more = request.more();
    add_given_back(request, !is_first);
    status = co_await tell_page(context, std::move(request), tell_all);
  }
  held_.told_all();
  co_return status;
}

asio::awaitable<Status> Session::tell(Context context) {
  {
    const runtime::Wait wait(context, runtime::WaitKind::kSibling, 0, telling_span_);
    KINTSUGI_CO_TRY(co_await telling_.acquire(TimePoint::max()));
  }
  telling_span_ = context.trace.span_id;
  Status status;
  do {
    bool tell_all = false;
    if (all_) {
      status = co_await tell_all_pages(context, tell_all);
    } else {
      proto::KeepSessionRequest request;
      held_.add_news(request, kMaxInodesAtOnce);
      add_given_back(request, true);
      status = co_await tell_page(context, std::move(request), tell_all);
    }
    // After an error nobody knows what arrived.
    all_ = !status.ok() || tell_all;
  } while (status.ok() && (all_ || held_.has_news() || leases_.has_news()));
  telling_.release();
  co_return status;
}

asio::awaitable<Status> Session::tell_in_background() {
  sight::BackgroundTask task(resources_.context(), kKeep);
  co_return task.finish(co_await tell(task.context()));
}

asio::awaitable<void> Session::keep() {
  do {
    const Status status = co_await tell_in_background();
    const TimePoint now = resources_.now();
    if (status.ok()) heard_ = now;
    if (status.ok() || now - heard_ < kSilentFor || !lines_.allow(now)) continue;
    log::warning("the metaserver has not heard this client for {:.0f} s, and calls wait: {}",
                 to_seconds(now - heard_), status.to_string());
  } while (co_await tasks_.sleep_for(kKeepInterval));
}

// ---- hearing

asio::awaitable<void> Session::await_recalls() {
  runtime::Backoff backoff(resources_.runtime.random, kFirstPause, kKeepInterval);
  while (!tasks_.stopping()) {
    proto::AwaitRecallsRequest request;
    request.set_session(id());
    request.set_after(changes_.last_told());
    proto::AwaitRecallsResponse response;
    const Context limited = Context{}.with_deadline(resources_.now() + kRecallsLimit);
    const Status status = co_await recalls_.call(limited, resources_.options.metaserver,
                                                 rpc::Method::kAwaitRecalls, request, response);
    if (status.ok() && !response.tell_all()) {
      backoff.reset();
      const std::vector<uint64_t> inodes(response.recall().begin(), response.recall().end());
      if (has_user_ && !inodes.empty()) user_.on_recalled(inodes);
      if (response.changed_size() > 0) {
        changes_.told(response, resources_.now());
        if (!std::exchange(hearing_, true)) tasks_.spawn(hear());
      }
      continue;
    }
    // A metaserver that has started anew lets nobody see an inode before it was told of leases, and counts changes anew.
    if (status.ok()) {
      all_ = true;
      changes_.start_anew();
      if ((co_await tell_in_background()).ok()) continue;
    }
    if (!co_await tasks_.sleep_for(backoff.next())) break;
  }
}

asio::awaitable<void> Session::hear() {
  while (!tasks_.stopping()) {
    std::optional<HeardChanges::Unheard> next = changes_.take_unheard();
    if (!next) break;
    if (on_changed) co_await on_changed(std::move(next->changes));
    changes_.heard(next->number);
    // When it does not arrive the metaserver waits until nothing can be believed any more.
    (void)co_await tell_in_background();
  }
  hearing_ = false;
}

}  // namespace kintsugi::client
