#include "metaserver/sessions/leases.h"

#include <algorithm>

#include "common/log/log.h"
#include "monitoring/sight/module.h"

namespace kintsugi::metaserver {

bool Leases::grant(uint64_t session, InodeId inode) {
  if (session == 0 || stopping_ || !sessions_.is_noted(session)) return false;
  if (const auto found = leases_.find(inode); found != leases_.end())
    return found->second.session == session && found->second.recalled == TimePoint{};
  if (pauses_ > 0) return false;
  ClientSession& owner = *sessions_.find(session);
  if (owner.leases.count() >= kMaxOfSession || owner.leases.lost.contains(inode) ||
      sessions_.held_by_others(inode, session))
    return false;
  give(owner, session, inode);
  return true;
}

bool Leases::inherit(uint64_t session, InodeId inode) {
  ClientSession* owner = sessions_.find(session);
  if (owner == nullptr || owner->leases.count() >= 2 * kMaxOfSession || leases_.contains(inode)) return false;
  give(*owner, session, inode);
  return true;
}

void Leases::give(ClientSession& session, uint64_t id, InodeId inode) {
  leases_[inode].session = id;
  session.leases.owned.insert(inode);
  ++grants_;
}

bool Leases::has_to_tell(InodeId inode, uint64_t session) const {
  const ClientSession* owner = sessions_.find(session);
  return owner != nullptr && (owner->leases.owned.contains(inode) || owner->leases.lost.contains(inode));
}

void Leases::give_back(uint64_t session, InodeId inode) {
  ClientSession* owner = sessions_.find(session);
  if (owner == nullptr) return;
  owner->leases.to_recall.erase(inode);
  owner->leases.lost.erase(inode);
  if (owner->leases.owned.erase(inode) > 0) leases_.erase(inode);
}

void Leases::keep(const proto::KeepSessionRequest& request, proto::KeepSessionResponse& response) {
  const uint64_t session = request.session();
  ClientSession& owner = *sessions_.find(session);
  for (const uint64_t inode : request.give_back())
    give_back(session, InodeId{inode});
  // Only after a start of the metaserver, while everybody waits for those that may have leases, can there be one that is not
  // known here. Any other was lost, as when nothing was heard of the session for so long that it was ended.
  const bool may_have = sessions_.may_tell_leases(session, kTakeOver);
  for (const uint64_t number : request.lease()) {
    const InodeId inode{number};
    const auto lease = leases_.find(inode);
    if (lease != leases_.end() && lease->second.session == session) continue;
    if (owner.leases.count() >= 2 * kMaxOfSession) break;
    if (may_have && lease == leases_.end() && !owner.leases.lost.contains(inode)) {
      give(owner, session, inode);
    } else {
      owner.leases.lost.insert(inode);
    }
  }
  // The session gives these back, and is told the rest then.
  for (const InodeId inode : owner.leases.lost) {
    if (response.lost_size() == kMaxLostAtOnce) break;
    response.add_lost(inode.value);
  }
  settled_.notify_all();
}

void Leases::ended(ClientSession& session) {
  for (const InodeId inode : session.leases.owned)
    leases_.erase(inode);
  session.leases = {};
  settled_.notify_all();
}

bool Leases::settled(InodeId inode, uint64_t session) const {
  if (sessions_.others_have_to_tell(session, kTakeOver)) return false;
  const auto lease = leases_.find(inode);
  return lease == leases_.end() || lease->second.session == session;
}

void Leases::recall(InodeId inode, Lease& lease) {
  const TimePoint now = clock_.now();
  if (lease.recalled == TimePoint{}) lease.recalled = now;
  // Told again as long as somebody waits: the answer that told of it may be lost.
  if (lease.told != TimePoint{} && now - lease.told < kTellAgain) return;
  lease.told = now;
  ClientSession& owner = *sessions_.find(lease.session);
  owner.leases.to_recall.insert(inode);
  owner.news->notify_all();
}

TimePoint Leases::revoked_at(const Lease& lease, Patience patience) const {
  const TimePoint since = patience == Patience::kTenSeconds
                              ? lease.recalled
                              : std::max(lease.recalled, sessions_.last_heard(lease.session));
  return since + kTakeOver;
}

void Leases::revoke(InodeId inode, uint64_t session) {
  log::warning(
      "session {:x} does not give the write lease of inode {} back: it has lost it, and others see the file "
      "as it is",
      session, inode);
  SessionLeases& leases = sessions_.find(session)->leases;
  leases.owned.erase(inode);
  leases.to_recall.erase(inode);
  leases.lost.insert(inode);
  if (losses_ != nullptr) losses_->lost(session, inode);
  leases_.erase(inode);
  settled_.notify_all();
}

InodeId Leases::first_untold(const std::vector<Wanted>& wanted) const {
  std::optional<uint64_t> asked;
  for (const auto& [inode, by] : wanted)
    if (std::exchange(asked, by) != by && sessions_.others_have_to_tell(by, kTakeOver)) return inode;
  return {};
}

asio::awaitable<Status> Leases::settle(Context context, std::vector<Wanted> wanted, Patience patience) {
  const TimePoint give_up = std::min(context.deadline, clock_.now() + kWait);
  std::optional<sight::Wait> wait;
  uint64_t waits_for = 0;  // the process that `wait` names
  while (!wanted.empty()) {
    const TimePoint now = clock_.now();
    InodeId unsettled = first_untold(wanted);
    TimePoint look_again = std::min(give_up, now + kTellAgain);
    bool revoked = false;
    uint64_t unnoted = 0;  // a session that loses one and of which that is not noted; 0: there is none
    // This process has one of the leases, and loses it first; 0: it is not known.
    uint64_t keeper = 0;
    TimePoint keeper_revoked = TimePoint::max();
    for (const auto [inode, by] : wanted) {
      const auto found = leases_.find(inode);
      if (found == leases_.end() || found->second.session == by) continue;
      unsettled = inode;
      recall(inode, found->second);
      const TimePoint until = revoked_at(found->second, patience);
      if (until < keeper_revoked) {
        keeper = sessions_.find(found->second.session)->process;
        keeper_revoked = until;
      }
      look_again = std::min(look_again, until);
      if (until > now) continue;
      if (losses_ != nullptr && !sessions_.has_lost(found->second.session)) {
        unnoted = found->second.session;
        continue;
      }
      revoke(inode, found->second.session);
      revoked = true;
    }
    if (!unsettled) break;
    if (revoked) continue;  // the last one may have been that
    if (stopping_ || now >= give_up)
      co_return Status{Code::kUnavailable,
                       fmt::format("inode {} is being written out by another client", unsettled)};
    // A metaserver that starts anew remembers no leases, and would believe a client that has not heard of its loss. While
    // that becomes durable the client may speak, give the lease back and be granted it anew: so all is looked at again.
    if (unnoted != 0) {
      KINTSUGI_CO_TRY(co_await losses_->note_loss(unnoted));
      continue;
    }
    // One wait for all rounds with one keeper: in each of them it is only told again.
    if (!wait || keeper != waits_for) {
      wait.reset();
      wait.emplace(context, sight::WaitKind::kProcess, runtime::named_target(context, "write lease"), keeper,
                   0, std::source_location::current());
      waits_for = keeper;
    }
    (void)co_await settled_.wait_until(look_again);
  }
  co_return Status{};
}

std::vector<InodeId> Leases::leased(Cursor& after, size_t at_most) const {
  std::vector<InodeId> page;
  const auto& sessions = std::as_const(sessions_).all();
  for (auto session = sessions.lower_bound(after.session); session != sessions.end(); ++session) {
    const std::set<InodeId>& all = session->second.leases.owned;
    auto inode = session->first == after.session ? all.upper_bound(after.inode) : all.begin();
    for (; inode != all.end() && page.size() < at_most; ++inode) {
      page.push_back(*inode);
      after = {session->first, *inode};
    }
    if (page.size() == at_most) break;
  }
  return page;
}

Status Leases::check(InodeId inode, uint64_t session) const {
  // Its leases may be others' by now, which only its list of them shows.
  if (sessions_.may_not_know_of_losses(session))
    return {Code::kUnavailable,
            "is written by a client that has to tell first which leases it believes to have"};
  const ClientSession* owner = sessions_.find(session);
  if (owner == nullptr || !owner->leases.lost.contains(inode)) return {};
  return {Code::kLeaseLost,
          "was given to others, since this client was silent: what it had not written out is refused"};
}

std::vector<InodeId> Leases::take_recalls(uint64_t session) {
  std::vector<InodeId> found;
  ClientSession* owner = sessions_.find(session);
  if (owner == nullptr) return found;
  auto& inodes = owner->leases.to_recall;
  while (!inodes.empty() && found.size() < kMaxRecalls)
    found.push_back(inodes.extract(inodes.begin()).value());
  return found;
}

void Leases::stop() {
  stopping_ = true;
  settled_.notify_all();
}

}  // namespace kintsugi::metaserver
