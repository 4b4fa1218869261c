#include "client/lib/files/session.h"

#include "common/base/assert.h"
#include "common/log/log.h"
#include "monitoring/sight/module.h"

namespace kintsugi::client {
namespace {

constexpr Duration kTellLimit = 5s;
constexpr Duration kRecallsLimit = 40s;  ///< longer than a metaserver lets such a call wait
constexpr Duration kFirstPause = 100ms;
constexpr size_t kMaxShared = 20'000;

constexpr sight::Site kKeep{"client.keep_session"};

}  // namespace

Session::Session(Resources& resources, ChangeJournal* journal, std::span<std::byte> own_locks)
    : resources_(resources),
      journal_(journal ? *journal : own_journal_),
      takes_over_(journal_.session != 0),
      id_(takes_over_ ? journal_.session : resources.runtime.random.next() | 1),
      locks_(id_, own_locks),
      ended_(resources.runtime),
      telling_(resources.runtime, 1),
      recalls_(resources.runtime, resources.secret),
      tasks_(resources.runtime) {
  journal_.session = id_;
  ++journal_.generation;
}

Session::~Session() {
  KINTSUGI_ASSERT(under_way_.empty() && tasks_.running() == 0);
}

// ---- changes

Session::Turn::~Turn() {
  // One of a former process has no place among those that are under way.
  if (session_ && change_.generation() == session_->journal_.generation)
    session_->end_change(change_.number());
}

asio::awaitable<Session::Turn> Session::begin_change(Context context, uint64_t tag) {
  proto::Change change;
  change.set_session(id_);
  if (tag != 0 && takes_over_) {
    for (const ChangeJournal::Slot& slot : journal_.slots) {
      if (slot.tag != tag || slot.generation == journal_.generation) continue;
      change.set_number(slot.number);
      change.set_generation(slot.generation);
      co_return Turn(this, std::move(change));
    }
  }
  while (!under_way_.empty() && next_number_ - *under_way_.begin() >= kMaxChangesUnderWay) {
    const runtime::Wait wait(context, runtime::WaitKind::kResource,
                             runtime::named_target(context, "changes under way"));
    co_await ended_.wait();
  }
  change.set_number(next_number_++);
  change.set_generation(journal_.generation);
  under_way_.insert(change.number());
  ChangeJournal::Slot& slot = journal_.slots[journal_.generation % kGenerations * kMaxChangesUnderWay +
                                             change.number() % kMaxChangesUnderWay];
  // The tag comes last: a process that dies in between leaves none that belongs to another change.
  volatile uint64_t& journaled_tag = slot.tag;
  journaled_tag = 0;
  slot.number = change.number();
  slot.generation = change.generation();
  journaled_tag = tag;
  co_return Turn(this, std::move(change));
}

void Session::end_change(uint64_t number) {
  const bool oldest = *under_way_.begin() == number;
  under_way_.erase(number);
  if (oldest) ended_.notify_all();
}

// ---- what is held

void Session::hold(uint64_t inode) {
  if (holds_[inode]++ > 0) return;
  if (news_released_.erase(inode) == 0) news_held_.insert(inode);
}

void Session::held(uint64_t inode) {
  if (holds_[inode]++ > 0) return;
  news_released_.erase(inode);
  // The pages that are under way do not name it.
  if (telling_all_) news_held_.insert(inode);
}

void Session::release(uint64_t inode) {
  const auto found = holds_.find(inode);
  KINTSUGI_ASSERT(found != holds_.end());
  if (--found->second > 0) return;
  holds_.erase(found);
  // One that was never told may be held all the same, by a call with `hold_for`: a release too many does no harm.
  news_held_.erase(inode);
  news_released_.insert(inode);
}

void Session::give_back(uint64_t inode) {
  leases_.erase(inode);
  ending_.erase(inode);
  news_given_back_.insert(inode);
}

asio::awaitable<Status> Session::send(Context context, proto::KeepSessionRequest request, bool& tell_all) {
  request.set_session(id_);
  request.set_number(uint64_t{journal_.generation} << 32 | ++told_);
  if (!request.ends()) {
    request.set_compacts(room_for_compaction());
    request.set_ask_locks(ask_locks_);
    request.set_believes(believes);
    request.set_heard(heard_change_);
  }
  proto::KeepSessionResponse response;
  const Status status =
      co_await resources_.meta.call_once(context, rpc::Method::kKeepSession, request, response, kTellLimit);
  tell_all = status.ok() && response.tell_all();
  if (status.ok()) resources_.health.told_slow(response.slow_servers());
  if (status.ok() && !response.lost().empty()) lost(response.lost());
  if (status.ok() && request.ask_locks()) {
    ask_locks_ = false;
    locks_.replace(response.lock());
  } else if (status.ok()) {
    for (const proto::HeldLock& lost : response.lock())
      locks_.lost(lost);
  }
  if (status.ok() && !response.compact().empty())
    on_compact({response.compact().begin(), response.compact().end()});
  co_return status;
}

void Session::lost(const google::protobuf::RepeatedField<uint64_t>& inodes) {
  std::vector<uint64_t> news;
  for (const uint64_t inode : inodes) {
    // The word that it was given up may be on its way.
    if (news_given_back_.contains(inode) || giving_back_.contains(inode)) continue;
    leases_.erase(inode);
    news.push_back(inode);
  }
  if (news.empty()) return;
  on_lost(news);
  for (const uint64_t inode : news)
    give_back(inode);
}

Session::Everything Session::everything() {
  Everything all;
  // The number of the first page (send()).
  all.generation = uint64_t{journal_.generation} << 32 | (told_ + 1);
  for (const auto& [inode, times] : holds_)
    all.holds.push_back(inode);
  all.leases.assign(leases_.begin(), leases_.end());
  for (const auto& [inode, had] : ending_)
    all.leases.push_back(inode);
  news_held_.clear();
  news_released_.clear();
  return all;
}

void Session::add_page(Everything& all, proto::KeepSessionRequest& request) const {
  request.set_all(true);
  request.set_generation(all.generation);
  // All locks fit one message (OwnLocks), and those that another process had are asked for only once.
  if (std::exchange(all.locks, false)) {
    for (proto::HeldLock& held : locks_.table().of(id_))
      *request.add_lock() = std::move(held);
  }
  size_t named = 0;
  for (; !all.holds.empty() && named < kMaxInodesAtOnce; ++named, all.holds.pop_front())
    if (holds_.contains(all.holds.front())) request.add_hold(all.holds.front());
  for (; !all.leases.empty() && named < kMaxInodesAtOnce; ++named, all.leases.pop_front()) {
    const uint64_t inode = all.leases.front();
    // It may have been given back since the first page.
    const bool has = leases_.contains(inode) || ending_.contains(inode);
    if (has && !unknown_.contains(inode)) request.add_lease(inode);
  }
  request.set_more(!all.holds.empty() || !all.leases.empty());
}

void Session::add_news(proto::KeepSessionRequest& request) {
  const auto some = [](std::set<uint64_t>& from, google::protobuf::RepeatedField<uint64_t>& to) {
    while (!from.empty() && static_cast<size_t>(to.size()) < kMaxInodesAtOnce)
      to.Add(from.extract(from.begin()).value());
  };
  some(news_held_, *request.mutable_hold());
  some(news_released_, *request.mutable_release());
}

void Session::add_given_back(proto::KeepSessionRequest& request, bool with_locks) {
  while (!news_given_back_.empty() && giving_back_.size() < kMaxInodesAtOnce)
    giving_back_.insert(news_given_back_.extract(news_given_back_.begin()));
  // The lease that a call brings which is under way now may be the one that this gives back.
  if (asking_ > 0) ended_early_.insert(giving_back_.begin(), giving_back_.end());
  request.mutable_give_back()->Add(giving_back_.begin(), giving_back_.end());
  for (const uint64_t inode : giving_back_) {
    if (!decided_.contains(inode)) continue;
    request.add_locks_of(inode);
    if (!with_locks) continue;
    for (proto::HeldLock& held : locks_.table().of(id_, InodeId{inode}))
      *request.add_lock() = std::move(held);
  }
}

asio::awaitable<Status> Session::tell_page(Context context, proto::KeepSessionRequest request,
                                           bool& tell_all) {
  const TimePoint sent = resources_.now();
  const bool more = request.more();
  const Status status = co_await send(context, std::move(request), tell_all);
  // After an error the inodes stay in giving_back_: they are told once more, and until then none of their leases is asked for.
  if (status.ok()) {
    for (const uint64_t inode : giving_back_)
      decided_.erase(inode);
    giving_back_.clear();
  }
  // Before the last page the metaserver cannot say otherwise than that it does not know everything.
  if (status.ok() && !tell_all && !more) decides_until_ = sent + kDecidesFor;
  co_return status;
}

asio::awaitable<Status> Session::tell_all_pages(Context context, bool& tell_all) {
  Everything all = everything();
  telling_all_ = true;
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
  telling_all_ = false;
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
      add_news(request);
      add_given_back(request, true);
      status = co_await tell_page(context, std::move(request), tell_all);
    }
    // After an error nobody knows what arrived.
    all_ = !status.ok() || tell_all;
  } while (status.ok() &&
           (all_ || !news_held_.empty() || !news_released_.empty() || !news_given_back_.empty()));
  telling_.release();
  co_return status;
}

Session::LocksAt Session::locks_at(uint64_t inode, bool takes) const {
  if (ask_locks_) return LocksAt::kUnclear;
  const auto ending = ending_.find(inode);
  const bool has = leases_.contains(inode) || (ending != ending_.end() && ending->second);
  if (!has) return decided_.contains(inode) ? LocksAt::kUnclear : LocksAt::kMetaserver;
  // Locks are taken only while the metaserver has heard of this session lately; they are given back at any time.
  return takes && resources_.now() >= decides_until_ ? LocksAt::kUnclear : LocksAt::kHere;
}

asio::awaitable<Status> Session::tell_in_background() {
  sight::BackgroundTask task(resources_.context(), kKeep);
  co_return task.finish(co_await tell(task.context()));
}

asio::awaitable<void> Session::keep() {
  do {
    const Status status = co_await tell_in_background();
    if (!status.ok()) log::debug("session {:x}: {}", id_, status.to_string());
  } while (co_await tasks_.sleep_for(kKeepInterval));
}

asio::awaitable<void> Session::await_recalls() {
  Duration pause = kFirstPause;
  while (!tasks_.stopping()) {
    proto::AwaitRecallsRequest request;
    request.set_session(id_);
    request.set_after(told_change_);
    proto::AwaitRecallsResponse response;
    const Context limited = Context{}.with_deadline(resources_.now() + kRecallsLimit);
    const Status status = co_await recalls_.call(limited, resources_.options.metaserver,
                                                 rpc::Method::kAwaitRecalls, request, response);
    if (status.ok() && !response.tell_all()) {
      pause = kFirstPause;
      const std::vector<uint64_t> inodes(response.recall().begin(), response.recall().end());
      if (!inodes.empty()) on_recall(inodes);
      if (response.changed_size() > 0) changed(response);
      continue;
    }
    // A metaserver that has started anew lets nobody see an inode before it was told of leases, and counts changes anew.
    if (status.ok()) {
      all_ = true;
      told_change_ = heard_change_ = 0;
      if ((co_await tell_in_background()).ok()) continue;
    }
    if (!co_await tasks_.sleep_for(pause)) break;
    pause = std::min(2 * pause, kKeepInterval);
  }
}

// ---- what a kernel may believe

void Session::changed(const proto::AwaitRecallsResponse& response) {
  const TimePoint now = resources_.now();
  changed_at_ = now;
  if (shared_until_.size() >= kMaxShared)
    std::erase_if(shared_until_, [now](const auto& one) { return one.second <= now; });
  // The metaserver counts from when it hears that this was heard: a little later.
  for (const proto::ChangedInode& inode : response.changed())
    if (!inode.names().empty()) shared_until_[inode.inode()] = now + 2 * kShared;
  told_change_ = response.number();
  unheard_.push_back({response.number(), now, Changes(response.changed().begin(), response.changed().end())});
  // A kernel that was not told of a change for so long believes nothing any more of what was before it.
  while (now - unheard_.front().told > kBelieved)
    unheard_.pop_front();
  if (!std::exchange(hearing_, true)) tasks_.spawn(hear());
}

asio::awaitable<void> Session::hear() {
  while (!unheard_.empty() && !tasks_.stopping()) {
    Unheard next = std::move(unheard_.front());
    unheard_.pop_front();
    if (on_changed) co_await on_changed(std::move(next.changes));
    heard_change_ = next.number;
    // When it does not arrive the metaserver waits until nothing can be believed any more.
    (void)co_await tell_in_background();
  }
  hearing_ = false;
}

Duration Session::believable(TimePoint asked, Duration usually) const {
  // The answer may have been on its way while somebody changed what it says.
  return asked <= changed_at_ ? Duration{} : std::max(Duration{}, usually - (resources_.now() - asked));
}

bool Session::is_shared(uint64_t directory) const {
  const auto shared = shared_until_.find(directory);
  return shared != shared_until_.end() && resources_.now() < shared->second;
}

void Session::start() {
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

}  // namespace kintsugi::client
