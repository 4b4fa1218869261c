/// Which clients with open files there are, and what they hold.
///
/// A file that a session holds outlives its last name; a session that is not heard of for a minute has ended, and with
/// it what it held. What sessions hold is not durable: after a start of the metaserver everything counts as held until
/// those that there were have had time to tell.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include <boost/asio/awaitable.hpp>

#include "common/base/ids.h"
#include "common/base/status.h"
#include "common/proto/inode.pb.h"
#include "common/runtime/runtime.h"
#include "metaserver/schema/transaction.h"
#include "metaserver/sessions/client_session.h"

namespace kintsugi::metaserver {

class Sessions {
 public:
  static constexpr Duration kIdle = std::chrono::seconds(60);
  /// What it changed is remembered for so long after its end: longer than clients ask again (FilesOptions::io_timeout).
  static constexpr Duration kRemembered = std::chrono::minutes(15);
  static constexpr size_t kMaxSessions = 10'000;
  static constexpr size_t kMaxHeld = 1'000'000;  ///< the limit for one session

  /// The parts of `runtime` must outlive it.
  explicit Sessions(const runtime::Runtime& runtime) : runtime_(runtime), clock_(runtime.clock) {}

  /// Loads the sessions that there were (keys::Kind::kChange): they may continue.
  void load(const Reader& reader);

  /// Takes a message of a session, and answers it. What the session holds may come in pages: the number of the first is
  /// their generation. kInvalidArgument; kLimitExceeded: too many sessions, or too many inodes of this one, which goes
  /// on to hold what it held; kConflict: a later message of the session was already received.
  Status keep(const proto::KeepSessionRequest& request, proto::KeepSessionResponse& response);
  bool known(uint64_t session) const { return sessions_.contains(session); }
  /// Returns null if the session is unknown.
  ClientSession* find(uint64_t session);
  const ClientSession* find(uint64_t session) const;
  std::map<uint64_t, ClientSession>& all() { return sessions_; }
  const std::map<uint64_t, ClientSession>& all() const { return sessions_; }
  /// Waits for something that the session is to be told. Returns true if there may be something, or the session has
  /// ended meanwhile; false if there was nothing until then, or there is no such session.
  asio::awaitable<bool> await_news(uint64_t session, TimePoint until);
  /// Notes that the session has opened the inode. Session 0 is none.
  void hold(uint64_t session, InodeId inode);
  /// Returns true if any session may have the inode open.
  bool held(InodeId inode) const;
  /// Returns true if a session other than `session` may have the inode open.
  bool held_by_others(InodeId inode, uint64_t session) const;
  /// Returns true if the metaserver started less than `limit` ago, and a session that there was before, other than
  /// `session`, has not told yet what it holds.
  bool others_have_to_tell(uint64_t session, Duration limit) const;
  /// Returns true if the session was there before the metaserver started, which is less than `limit` ago, and has not
  /// lost anything by its silence.
  bool may_tell_leases(uint64_t session, Duration limit) const;
  /// Notes whether the answer to a page of what the session holds told it of a loss. Returns true if that, or the
  /// answer to a page before it, did.
  bool pages_lost(uint64_t session, bool lost);
  /// Notes that the next process of the metaserver will know that there was this session.
  void noted(uint64_t session);
  bool is_noted(uint64_t session) const;
  /// Notes that the session lost leases or locks by its silence, or, if not `lost`, that it has confirmed it. REQUIRES:
  /// that is durable (Clients::note_loss), or about to be.
  void lost_something(uint64_t session, bool lost);
  /// Returns true if the session lost leases or locks by its silence and has not confirmed it, or is unknown: what it
  /// claims to have must not be believed.
  bool has_lost(uint64_t session) const;
  /// Returns true if the session had ended before the start, was never there, or has_lost(): what it claims to a
  /// metaserver that does not know it may be others' by now.
  bool is_doubtful(uint64_t session) const;
  /// Returns true if the session is unknown, or has not told yet everything that it holds.
  bool has_to_tell(uint64_t session) const;
  /// Returns true if the session may have lost leases without knowing it: it has not told yet everything that it holds,
  /// or has ended by its silence.
  bool may_not_know_of_losses(uint64_t session) const;
  /// Returns when the session was last heard of; the minimum for an unknown one.
  TimePoint last_heard(uint64_t session) const;

  /// Returns the sessions that were not heard of for kIdle: they are to be ended.
  std::vector<uint64_t> silent() const;
  bool is_silent(uint64_t session) const;
  /// Ends the session, which holds nothing any more. Only Clients calls this, and ends everything else that the session
  /// has.
  void end(uint64_t session, bool by_silence);
  /// Returns the sessions that have ended since the last call.
  std::vector<uint64_t> take_ended() { return std::exchange(ended_, {}); }
  /// Returns true if the session ended by its silence. It may be back, and has not told yet what it has.
  bool ended_by_silence(uint64_t session) const { return ended_silently_.contains(session); }
  /// Returns the sessions that ended by their silence kRemembered ago: their changes need not be remembered any more.
  std::vector<uint64_t> to_forget();
  /// Notes that this process did not run for so long: clients could not be heard.
  void stood_still(Duration time);
  size_t count() const { return sessions_.size(); }

 private:
  static Status check_room(const ClientSession& session, const proto::KeepSessionRequest& request);
  void take_all(ClientSession& session, const proto::KeepSessionRequest& request);
  void let_go(ClientSession& session, InodeId inode);
  void take(ClientSession& session, InodeId inode);

  const runtime::Runtime runtime_;
  const runtime::Clock& clock_;
  TimePoint loaded_ = TimePoint::min();
  /// Until then sessions of before the start may tell what they hold.
  TimePoint telling_until_ = TimePoint::min();
  std::map<uint64_t, ClientSession> sessions_;
  std::map<InodeId, size_t> holders_;             ///< how many sessions hold an inode
  std::vector<uint64_t> ended_;                   ///< sessions that take_ended() has not returned yet
  std::map<uint64_t, TimePoint> ended_silently_;  ///< sessions that ended by their silence, and when
};

}  // namespace kintsugi::metaserver
