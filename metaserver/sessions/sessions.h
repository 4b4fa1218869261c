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

  /// kInvalidArgument; kLimitExceeded: too many, and what it held it holds still; kConflict: it was overtaken by a
  /// later message of the session. What it holds may come in pages: the first has the generation for its number.
  Status keep(const proto::KeepSessionRequest& request, proto::KeepSessionResponse& response);
  bool known(uint64_t session) const { return sessions_.contains(session); }
  /// Null: it is not known.
  ClientSession* find(uint64_t session);
  const ClientSession* find(uint64_t session) const;
  std::map<uint64_t, ClientSession>& all() { return sessions_; }
  const std::map<uint64_t, ClientSession>& all() const { return sessions_; }
  /// Waits for something that the session is to be told. True: there may be something, or the session has ended
  /// meanwhile. False: there was nothing until then, or there is no such session.
  asio::awaitable<bool> await_news(uint64_t session, TimePoint until);
  /// The session has opened the inode. Session 0 is none.
  void hold(uint64_t session, InodeId inode);
  /// Somebody may have it open.
  bool held(InodeId inode) const;
  /// The same of anybody but this session.
  bool held_by_others(InodeId inode, uint64_t session) const;
  /// The metaserver started not longer than `limit` ago, and some other session that there was before has not told yet
  /// what it holds.
  bool others_have_to_tell(uint64_t session, Duration limit) const;
  /// It was there before the metaserver started, which is not longer than `limit` ago.
  bool may_tell_leases(uint64_t session, Duration limit) const;
  /// Pages of what it holds are under way: whether one that came before, or this one, told the session of a loss.
  bool pages_lost(uint64_t session, bool lost);
  /// The next process of the metaserver will know that there was this session.
  void noted(uint64_t session);
  bool is_noted(uint64_t session) const;
  /// It lost leases or locks by its silence and has not said yet that it knows, durably (note_loss).
  void lost_something(uint64_t session, bool lost);
  /// The same, or nothing is known of the session: what it tells of what it had is not to be believed.
  bool has_lost(uint64_t session) const;
  /// It had ended, or was never there, or has_lost(): whatever it tells to a metaserver that does not know it may be
  /// others' by now.
  bool is_doubtful(uint64_t session) const;
  /// It is not known, or was known before the start and has not told yet.
  bool has_to_tell(uint64_t session) const;
  /// The same of one that may have had leases before: it is there and has not told yet, or has ended by its silence.
  bool may_not_know_of_losses(uint64_t session) const;
  /// The minimum for one that is not known.
  TimePoint last_heard(uint64_t session) const;

  /// Sessions that were not heard of for too long: they are to be ended.
  std::vector<uint64_t> silent() const;
  bool is_silent(uint64_t session) const;
  /// The session has ended and holds nothing any more. Only Clients calls it, which ends everything else that it has.
  void end(uint64_t session, bool by_silence);
  /// Those that have ended since the last call.
  std::vector<uint64_t> take_ended() { return std::exchange(ended_, {}); }
  /// It may be back, and has not told yet what it has.
  bool ended_by_silence(uint64_t session) const { return ended_silently_.contains(session); }
  /// Sessions that ended by their silence, and whose changes need not be remembered any more.
  std::vector<uint64_t> to_forget();
  /// This process did not run for so long: clients could not be heard.
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
