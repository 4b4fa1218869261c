#include "metaserver/sessions/sessions.h"

#include <algorithm>

#include "metaserver/namespace/changes.h"
#include "metaserver/schema/keys.h"

namespace kintsugi::metaserver {

void Sessions::load(const Reader& reader) {
  reader.scan(keys::all(keys::Kind::kChange), [&](std::string_view key, std::string_view) {
    const uint64_t id = keys::first_id(key);
    if (noted_end(reader, id)) {
      ended_silently_[id] = clock_.now();
      return true;
    }
    ClientSession& session = sessions_.try_emplace(id, runtime_).first->second;
    session.of_before = session.noted = true;
    return true;
  });
  for (auto& [id, session] : sessions_)
    session.lost = noted_loss(reader, id);
  loaded_ = clock_.now();
  if (!sessions_.empty()) telling_until_ = loaded_ + kIdle;
}

ClientSession* Sessions::find(uint64_t id) {
  const auto found = sessions_.find(id);
  return found == sessions_.end() ? nullptr : &found->second;
}

const ClientSession* Sessions::find(uint64_t id) const {
  const auto found = sessions_.find(id);
  return found == sessions_.end() ? nullptr : &found->second;
}

asio::awaitable<bool> Sessions::await_news(uint64_t id, TimePoint until) {
  const ClientSession* session = find(id);
  if (session == nullptr) co_return false;
  const std::shared_ptr<runtime::Event> news = session->news;
  co_return co_await news->wait_until(until);
}

void Sessions::take(ClientSession& session, InodeId inode) {
  if (session.open.all.insert(inode).second) ++holders_[inode];
}

void Sessions::let_go(ClientSession& session, InodeId inode) {
  if (session.open.all.erase(inode) == 0) return;
  const auto holders = holders_.find(inode);
  if (--holders->second == 0) holders_.erase(holders);
}

Status Sessions::check_room(const ClientSession& session, const proto::KeepSessionRequest& request) {
  const bool begins = request.generation() == 0 || request.generation() == request.number();
  const size_t before = !request.all() ? session.open.all.size() : begins ? 0 : session.open.listed.size();
  if (before + static_cast<size_t>(request.hold_size()) <= kMaxHeld) return {};
  return {Code::kLimitExceeded, "the client has too many files open"};
}

void Sessions::take_all(ClientSession& session, const proto::KeepSessionRequest& request) {
  if (request.generation() == 0 || request.generation() == request.number()) {
    session.open.generation = request.generation();
    session.open.listed.clear();
    session.open.pages_lost = false;
  } else if (request.generation() != session.open.generation) {
    session.open.told_all =
        false;  // the first pages came to another process of the metaserver: it has to begin anew
    return;
  }
  for (const uint64_t inode : request.hold()) {
    take(session, InodeId{inode});
    session.open.listed.insert(InodeId{inode});
  }
  if (request.more()) return;
  for (const InodeId inode : std::set<InodeId>(session.open.all))
    if (!session.open.listed.contains(inode)) let_go(session, inode);
  session.open.listed.clear();
  session.open.generation = 0;
  session.open.told_all = true;
}

bool Sessions::pages_lost(uint64_t id, bool lost) {
  const auto found = sessions_.find(id);
  if (found == sessions_.end()) return lost;
  found->second.open.pages_lost |= lost;
  return found->second.open.pages_lost;
}

Status Sessions::keep(const proto::KeepSessionRequest& request, proto::KeepSessionResponse& response) {
  if (request.session() == 0) return {Code::kInvalidArgument, "the request has no session id"};
  auto found = sessions_.find(request.session());
  if (found == sessions_.end()) {
    if (request.ends()) return {};
    if (sessions_.size() >= kMaxSessions) return {Code::kLimitExceeded, "too many clients have files open"};
    found = sessions_.try_emplace(request.session(), runtime_).first;
  }
  ClientSession& session = found->second;
  session.last_heard = clock_.now();
  if (request.number() != 0) {
    if (request.number() <= session.last_number)
      return {Code::kConflict, "a later message of this session was already received"};
    session.last_number = request.number();
  }
  if (request.process() != 0) session.process = request.process();
  KINTSUGI_TRY(check_room(session, request));
  if (request.all()) {
    take_all(session, request);
  } else {
    for (const uint64_t inode : request.hold())
      take(session, InodeId{inode});
  }
  for (const uint64_t inode : request.release())
    let_go(session, InodeId{inode});
  if (!request.ends()) response.set_tell_all(!session.open.told_all);
  return {};
}

void Sessions::hold(uint64_t id, InodeId inode) {
  if (id == 0) return;
  auto found = sessions_.find(id);
  if (found == sessions_.end()) {
    if (sessions_.size() >= kMaxSessions) return;
    found = sessions_.try_emplace(id, runtime_).first;
  }
  take(found->second, inode);
  if (found->second.open.generation != 0) found->second.open.listed.insert(inode);
}

bool Sessions::held(InodeId inode) const {
  return holders_.contains(inode) || clock_.now() < telling_until_;
}

bool Sessions::held_by_others(InodeId inode, uint64_t session) const {
  if (others_have_to_tell(session, kIdle)) return true;
  const auto holders = holders_.find(inode);
  if (holders == holders_.end()) return false;
  const auto own = sessions_.find(session);
  return holders->second > (own != sessions_.end() && own->second.open.all.contains(inode) ? 1 : 0);
}

bool Sessions::others_have_to_tell(uint64_t session, Duration limit) const {
  // Sessions that came later have told everything: only those that were loaded may have something to tell.
  if (telling_until_ == TimePoint::min() || clock_.now() >= loaded_ + limit) return false;
  return std::ranges::any_of(sessions_, [&](const auto& one) {
    return one.first != session && one.second.of_before && !one.second.open.told_all;
  });
}

bool Sessions::may_tell_leases(uint64_t session, Duration limit) const {
  const auto found = sessions_.find(session);
  return found != sessions_.end() && found->second.of_before && !found->second.lost &&
         clock_.now() < loaded_ + limit;
}

void Sessions::lost_something(uint64_t session, bool lost) {
  const auto found = sessions_.find(session);
  if (found != sessions_.end()) found->second.lost = lost;
}

bool Sessions::has_lost(uint64_t session) const {
  const auto found = sessions_.find(session);
  return found == sessions_.end() || found->second.lost;
}

bool Sessions::is_doubtful(uint64_t session) const {
  const auto found = sessions_.find(session);
  return found == sessions_.end() || !found->second.of_before || found->second.lost;
}

void Sessions::noted(uint64_t session) {
  const auto found = sessions_.find(session);
  if (found != sessions_.end()) found->second.noted = true;
}

bool Sessions::is_noted(uint64_t session) const {
  const auto found = sessions_.find(session);
  return found != sessions_.end() && found->second.noted;
}

bool Sessions::has_to_tell(uint64_t session) const {
  const auto found = sessions_.find(session);
  return found == sessions_.end() || !found->second.open.told_all;
}

bool Sessions::may_not_know_of_losses(uint64_t session) const {
  return known(session) ? has_to_tell(session) : ended_by_silence(session);
}

TimePoint Sessions::last_heard(uint64_t session) const {
  const auto found = sessions_.find(session);
  return found == sessions_.end() ? TimePoint::min() : found->second.last_heard;
}

std::vector<uint64_t> Sessions::silent() const {
  std::vector<uint64_t> found;
  for (const auto& [id, session] : sessions_)
    if (clock_.now() - session.last_heard >= kIdle) found.push_back(id);
  return found;
}

bool Sessions::is_silent(uint64_t id) const {
  const auto found = sessions_.find(id);
  return found != sessions_.end() && clock_.now() - found->second.last_heard >= kIdle;
}

void Sessions::end(uint64_t id, bool by_silence) {
  const auto found = sessions_.find(id);
  if (found == sessions_.end()) return;
  ClientSession& session = found->second;
  while (!session.open.all.empty())
    let_go(session, *session.open.all.begin());
  session.news->notify_all();
  ended_.push_back(id);
  if (by_silence) ended_silently_[id] = clock_.now();
  sessions_.erase(found);
}

std::vector<uint64_t> Sessions::to_forget() {
  std::vector<uint64_t> due;
  std::erase_if(ended_silently_, [&](const auto& one) {
    if (known(one.first)) return !has_to_tell(one.first);
    if (clock_.now() - one.second < kRemembered) return false;
    due.push_back(one.first);
    return true;
  });
  return due;
}

void Sessions::stood_still(Duration time) {
  for (auto& [id, session] : sessions_)
    session.last_heard += time;
  // Nor could those of before the start tell what they have.
  loaded_ += time;
  if (telling_until_ != TimePoint::min()) telling_until_ += time;
}

}  // namespace kintsugi::metaserver
