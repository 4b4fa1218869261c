#include "metaserver/sessions/promises.h"

#include <algorithm>
#include <map>
#include <utility>

#include "metaserver/namespace/snapshots.h"

namespace kintsugi::metaserver {

bool Promises::believes_nothing(uint64_t id) const {
  if (const ClientSession* session = std::as_const(sessions_).find(id))
    return session->beliefs.has_spoken() && !session->beliefs.believes;
  return ended_.contains(id);
}

SessionBeliefs* Promises::beliefs_of(uint64_t id) {
  ClientSession* session = sessions_.find(id);
  return session != nullptr && session->beliefs.has_spoken() ? &session->beliefs : nullptr;
}

void Promises::session_is(uint64_t id, bool believes) {
  ClientSession* session = sessions_.find(id);
  if (session == nullptr) return;
  if (!session->beliefs.has_spoken())
    session->beliefs.last = static_cast<uint64_t>(clock_.wall_now().time_since_epoch().count());
  session->beliefs.believes = believes;
}

void Promises::ended(uint64_t session, bool by_silence) {
  if (!by_silence || beliefs_of(session) != nullptr) ended_[session] = clock_.now();
  heard_.notify_all();
}

void Promises::stop() {
  stopping_ = true;
  heard_.notify_all();
}

void Promises::turn() {
  const TimePoint now = clock_.now();
  if (turned_ != TimePoint::min() && now - turned_ < kHolds) return;
  const bool both = turned_ == TimePoint::min() || now - turned_ >= 2 * kHolds;
  std::swap(tables_[0], tables_[1]);
  std::swap(count_[0], count_[1]);
  tables_[0].clear();
  count_[0] = 0;
  if (both) tables_[1].clear();
  if (both) count_[1] = 0;
  turned_ = now;
  for (auto& [inode, all] : pending_)
    std::erase_if(all, [&](const Pending& pending) { return pending.until <= now; });
  std::erase_if(pending_, [](const auto& one) { return one.second.empty(); });
  std::erase_if(ended_, [&](const auto& one) { return now - one.second > 2 * kHolds; });
}

void Promises::note_promise(uint64_t session, InodeId inode, int what) {
  if (session == 0 || believes_nothing(session)) return;
  if ((what & kNames) != 0 && is_shared(session, inode)) what &= ~kNames;
  if (what != 0) add(session, inode, what);
}

void Promises::add(uint64_t session, InodeId inode, int what) {
  turn();
  const TimePoint now = clock_.now();
  if (count() >= kMaxPromises) {
    unlisted_until_ = now + kHolds;
    return;
  }
  std::vector<Promise>& promises = tables_[0][inode];
  const auto found =
      std::ranges::find_if(promises, [&](const Promise& promise) { return promise.session == session; });
  if (found != promises.end()) {
    found->made = now;
    found->what |= what;
    return;
  }
  promises.push_back({session, now, what});
  ++count_[0];
}

void Promises::moved(uint64_t session, InodeId from, InodeId to) {
  // Names of one directory are promised together. And of a directory that is shared, a kernel is told no names: it may
  // believe one only of what was told before.
  if (session == 0 || from == to || believes_nothing(session)) return;
  if (!is_shared(session, from) || believes_names(session, from)) add(session, to, kNames);
}

bool Promises::believes_names(uint64_t session, InodeId directory) const {
  const TimePoint now = clock_.now();
  return std::ranges::any_of(tables_, [&](const Table& table) {
    const auto found = table.find(directory);
    return found != table.end() && std::ranges::any_of(found->second, [&](const Promise& promise) {
             return promise.session == session && (promise.what & kNames) != 0 && now < promise.made + kHolds;
           });
  });
}

void Promises::drop_expired(SessionBeliefs& beliefs) const {
  const TimePoint now = clock_.now();
  while (!beliefs.untold.empty() && beliefs.untold.front().until <= now)
    beliefs.untold.pop_front();
}

void Promises::change(InodeId inode, const std::vector<std::string>& names, uint64_t by, Hearers& hearers) {
  const TimePoint now = clock_.now();
  struct Believer {
    int what = 0;
    TimePoint until;
  };
  std::map<uint64_t, Believer> believers;
  for (size_t i = 0; i < 2; ++i) {
    const auto found = tables_[i].find(inode);
    if (found == tables_[i].end()) continue;
    for (Promise& promise : found->second) {
      const TimePoint until = promise.made + kHolds;
      if (promise.session == by || until <= now) continue;
      const int broken = names.empty() ? promise.what & ~kNames : promise.what;
      if (broken == 0) continue;
      // Other names in the directory are still believed.
      promise.what &= ~kAttributes;
      Believer& believer = believers[promise.session];
      believer.what |= broken;
      believer.until = std::max(believer.until, until);
    }
    count_[i] -= std::erase_if(found->second, [&](const Promise& promise) { return promise.what == 0; });
    if (found->second.empty()) tables_[i].erase(found);
  }
  for (const auto& [id, believer] : believers) {
    if (believes_nothing(id)) continue;
    SessionBeliefs* session = beliefs_of(id);
    if (session != nullptr) drop_expired(*session);
    // One that has not said anything yet, or hears too little, is not told.
    if (session == nullptr || session->untold.size() >= kMaxUntold) {
      add_pending(inode, {id, kNeverTold, believer.until});
      continue;
    }
    session->untold.push_back({++session->last, believer.until, inode, {}});
    if ((believer.what & kNames) != 0) session->untold.back().names = names;
    add_pending(inode, {id, session->last, believer.until});
    sessions_.find(id)->news->notify_all();
  }
  // Also those that have not heard yet of an earlier change, and believe what was before that.
  const auto pending = pending_.find(inode);
  if (pending == pending_.end()) return;
  for (const Pending& one : pending->second)
    if (one.session != by && one.until > now) hearers.waits_.push_back({one.session, one.number, one.until});
}

void Promises::add_pending(InodeId inode, Pending added) {
  if (added.number == kNeverTold) untellable_until_ = std::max(untellable_until_, added.until);
  std::vector<Pending>& all = pending_[inode];
  const auto before = std::ranges::find(all, added.session, &Pending::session);
  if (before == all.end()) {
    all.push_back(added);
    return;
  }
  // Numbers grow: who has heard of the last has heard of all.
  before->number = before->until > clock_.now() ? std::max(before->number, added.number) : added.number;
  before->until = std::max(before->until, added.until);
}

bool Promises::is_shared(uint64_t id, InodeId directory) const {
  const ClientSession* session = std::as_const(sessions_).find(id);
  if (session == nullptr) return false;
  const auto shared = session->beliefs.shared.find(directory);
  return shared != session->beliefs.shared.end() && clock_.now() < shared->second;
}

Promises::Hearers Promises::note_change(const Transaction& transaction) {
  turn();
  Hearers hearers;
  const TimePoint now = clock_.now();
  if (count() == 0 && pending_.empty() && before_until_ <= now && unlisted_until_ <= now) return hearers;
  std::map<InodeId, std::vector<std::string>> inodes;
  transaction.visit_written(keys::all(keys::Kind::kInode),
                            [&](std::string_view key) { inodes.try_emplace(InodeId{keys::first_id(key)}); });
  transaction.visit_written(keys::all(keys::Kind::kEntry), [&](std::string_view key) {
    inodes[InodeId{keys::first_id(key)}].emplace_back(keys::name_of_entry(key));
  });
  for (const auto& [key, value] : transaction.written(keys::all(keys::Kind::kSnapshot))) {
    const auto before = transaction.store().get_message<proto::StoredSnapshot>(key);
    const auto now_there = value ? std::optional(Reader::parse<proto::StoredSnapshot>(*value)) : std::nullopt;
    // Its name comes when it is made, and goes when it begins to be deleted; else it only keeps more or less.
    if (!now_there || (before && before->deleting() == now_there->deleting())) continue;
    const InodeId directory{now_there->directory()};
    inodes[directory].emplace_back(kSnapshotsName);
    inodes[SnapshotInode{0, directory}.shown()].push_back(now_there->name());
  }
  if (inodes.empty()) return hearers;
  if (before_until_ > now) hearers.until_ = before_until_;
  if (unlisted_until_ > now) hearers.until_ = std::max(hearers.until_, unlisted_until_);
  for (const auto& [inode, names] : inodes)
    change(inode, names, transaction.by, hearers);
  return hearers;
}

Promises::Hearers Promises::note_change(InodeId inode, uint64_t by) {
  turn();
  Hearers hearers;
  const TimePoint now = clock_.now();
  hearers.until_ = std::max(before_until_, unlisted_until_);
  if (hearers.until_ <= now) hearers.until_ = TimePoint::min();
  change(inode, {}, by, hearers);
  return hearers;
}

Promises::Hearers Promises::unheard() {
  Hearers hearers;
  hearers.until_ = std::max({before_until_, unlisted_until_, untellable_until_});
  for (const auto& [id, session] : std::as_const(sessions_).all()) {
    const SessionBeliefs& beliefs = session.beliefs;
    if (!beliefs.untold.empty())
      hearers.waits_.push_back(
          {id, beliefs.last, std::ranges::max(beliefs.untold, {}, &SessionBeliefs::Untold::until).until});
  }
  return hearers;
}

asio::awaitable<void> Promises::await_heard(Hearers hearers) {
  while (!stopping_ && clock_.now() < hearers.until_)
    (void)co_await heard_.wait_until(hearers.until_);
  for (const Hearers::Wait& wait : hearers.waits_) {
    while (!stopping_ && clock_.now() < wait.until) {
      const bool is_known = sessions_.known(wait.session);
      // Nobody knows whether a session has ended that is not known and was never told.
      if (believes_nothing(wait.session) || (!is_known && wait.number != kNeverTold)) break;
      const SessionBeliefs* beliefs = beliefs_of(wait.session);
      if (beliefs != nullptr && beliefs->heard >= wait.number) break;
      (void)co_await heard_.wait_until(wait.until);
    }
  }
}

bool Promises::tell(uint64_t id, uint64_t after, proto::AwaitRecallsResponse& response) {
  SessionBeliefs* session = beliefs_of(id);
  if (session == nullptr) return false;
  // It was told by a former process of the metaserver, whose clock was ahead.
  if (after > session->last) after = 0;
  // A process that begins knows of no directory that others work in it.
  if (after == 0) session->shared.clear();
  drop_expired(*session);
  size_t bytes = 0;
  for (const SessionBeliefs::Untold& untold : session->untold) {
    if (untold.number <= after) continue;
    for (const std::string& name : untold.names)
      bytes += name.size();
    if (response.changed_size() == kAtOnce || (bytes > kAtOnceBytes && response.changed_size() > 0)) break;
    proto::ChangedInode& changed = *response.add_changed();
    changed.set_inode(untold.inode.value);
    for (const std::string& name : untold.names)
      changed.add_names(name);
    response.set_number(untold.number);
  }
  return response.changed_size() > 0;
}

void Promises::session_heard(uint64_t id, uint64_t number) {
  SessionBeliefs* found = beliefs_of(id);
  if (found == nullptr) return;
  SessionBeliefs& session = *found;
  if (number > session.last || number <= session.heard) return;  // of another process of the metaserver
  session.heard = number;
  if (session.shared.size() >= kMaxShared) session.shared.clear();
  for (; !session.untold.empty() && session.untold.front().number <= number; session.untold.pop_front()) {
    const SessionBeliefs::Untold& told = session.untold.front();
    if (!told.names.empty()) session.shared[told.inode] = clock_.now() + kShared;
  }
  heard_.notify_all();
}

}  // namespace kintsugi::metaserver
