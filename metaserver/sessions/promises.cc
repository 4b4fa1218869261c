#include "metaserver/sessions/promises.h"

#include <algorithm>
#include <map>

#include "metaserver/namespace/snapshots.h"

namespace kintsugi::metaserver {

void Promises::session_is(uint64_t session, bool believes) {
  if (session == 0) return;
  const auto [found, is_new] = sessions_.try_emplace(session);
  if (is_new) found->second.last = static_cast<uint64_t>(clock_.wall_now().time_since_epoch().count());
  found->second.believes = believes;
}

void Promises::ended(uint64_t session) {
  const auto found = sessions_.find(session);
  if (found == sessions_.end()) return;
  // Its promises are in the tables for another moment.
  found->second = {.believes = false, .ended = clock_.now()};
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
  std::erase_if(sessions_, [&](const auto& one) {
    return one.second.ended != TimePoint::max() && now - one.second.ended > 2 * kHolds;
  });
}

void Promises::made(uint64_t session, InodeId inode, int what) {
  if (session == 0) return;
  if (const auto known = sessions_.find(session); known != sessions_.end() && !known->second.believes) return;
  if ((what & kNames) != 0 && is_shared(session, inode)) what &= ~kNames;
  if (what == 0) return;
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

void Promises::moved_into(uint64_t session, InodeId directory) {
  if (const auto known = sessions_.find(session); known != sessions_.end())
    known->second.shared.erase(directory);
  made(session, directory, kNames);
}

void Promises::drop_expired(Session& session) const {
  const TimePoint now = clock_.now();
  while (!session.untold.empty() && session.untold.front().until <= now)
    session.untold.pop_front();
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
    const auto found = sessions_.find(id);
    if (found != sessions_.end() && !found->second.believes) continue;
    if (found != sessions_.end()) drop_expired(found->second);
    // One that has not said anything yet, or hears too little, is not told.
    if (found == sessions_.end() || found->second.untold.size() >= kMaxUntold) {
      add_pending(inode, {id, kNeverTold, believer.until});
      continue;
    }
    Session& session = found->second;
    session.untold.push_back({++session.last, believer.until, inode, {}});
    if ((believer.what & kNames) != 0) session.untold.back().names = names;
    add_pending(inode, {id, session.last, believer.until});
    news_.notify_all();
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
  const auto session = sessions_.find(id);
  if (session == sessions_.end()) return false;
  const auto shared = session->second.shared.find(directory);
  return shared != session->second.shared.end() && clock_.now() < shared->second;
}

Promises::Hearers Promises::changed(const Transaction& transaction) {
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

Promises::Hearers Promises::changed(InodeId inode, uint64_t by) {
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
  for (const auto& [id, session] : sessions_)
    if (!session.untold.empty())
      hearers.waits_.push_back(
          {id, session.last, std::ranges::max(session.untold, {}, &Untold::until).until});
  return hearers;
}

asio::awaitable<void> Promises::heard(Hearers hearers) {
  while (!stopping_ && clock_.now() < hearers.until_)
    (void)co_await heard_.wait_until(hearers.until_);
  for (const Hearers::Wait& wait : hearers.waits_) {
    while (!stopping_ && clock_.now() < wait.until) {
      const auto session = sessions_.find(wait.session);
      const bool is_known = session != sessions_.end();
      // Of one that is not known, and was never told, nobody knows whether it has ended.
      const bool has_ended = is_known ? !session->second.believes : wait.number != kNeverTold;
      if (has_ended || (is_known && session->second.heard >= wait.number)) break;
      (void)co_await heard_.wait_until(wait.until);
    }
  }
}

bool Promises::tell(uint64_t id, uint64_t after, proto::AwaitRecallsResponse& response) {
  const auto found = sessions_.find(id);
  if (found == sessions_.end()) return false;
  Session& session = found->second;
  // A process that begins knows of no directory that others work in it.
  if (after == 0) session.shared.clear();
  drop_expired(session);
  for (const Untold& untold : session.untold) {
    if (untold.number <= after) continue;
    if (response.changed_size() == kAtOnce) break;
    proto::ChangedInode& changed = *response.add_changed();
    changed.set_inode(untold.inode.value);
    for (const std::string& name : untold.names)
      changed.add_names(name);
    response.set_number(untold.number);
  }
  return response.changed_size() > 0;
}

void Promises::session_heard(uint64_t id, uint64_t number) {
  const auto found = sessions_.find(id);
  if (found == sessions_.end()) return;
  Session& session = found->second;
  if (number > session.last || number <= session.heard) return;  // of another process of the metaserver
  session.heard = number;
  if (session.shared.size() >= kMaxShared) session.shared.clear();
  for (; !session.untold.empty() && session.untold.front().number <= number; session.untold.pop_front()) {
    const Untold& told = session.untold.front();
    if (!told.names.empty()) session.shared[told.inode] = clock_.now() + kShared;
  }
  heard_.notify_all();
}

}  // namespace kintsugi::metaserver
