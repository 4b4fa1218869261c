/// Clients with open files. A file that a session holds outlives its last name; a session that is not heard of for a minute
/// has ended, and with it what it held. What sessions hold is not durable: after a start of the metaserver everything counts as
/// held until those that there were have had time to tell.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "common/base/ids.h"
#include "common/base/status.h"
#include "common/proto/inode.pb.h"
#include "common/runtime/clock.h"
#include "metaserver/schema/transaction.h"

namespace kintsugi::metaserver {

class Sessions {
 public:
  static constexpr Duration kIdle = std::chrono::seconds(60);
  /// What it changed is remembered for so long after its end: longer than clients ask again (FilesOptions::io_timeout).
  static constexpr Duration kRemembered = std::chrono::minutes(15);
  static constexpr size_t kMaxSessions = 10'000;
  static constexpr size_t kMaxHeld = 1'000'000;  ///< of one session

  /// The clock must outlive it.
  explicit Sessions(const runtime::Clock& clock) : clock_(clock) {}

  /// Loads the sessions that there were (keys::Kind::kChange): they may go on.
  void load(const Reader& reader);

  /// kInvalidArgument; kLimitExceeded: too many, and what it held it holds still; kConflict: it was overtaken by a later
  /// message of the session. What it holds may come in pages: the first has the generation for its number.
  Status keep(const proto::KeepSessionRequest& request, proto::KeepSessionResponse& response);
  bool known(uint64_t session) const { return sessions_.contains(session); }
  /// The session has opened the inode. Session 0 is none.
  void hold(uint64_t session, InodeId inode);
  /// Somebody may have it open.
  bool held(InodeId inode) const;
  /// The same of anybody but this session.
  bool held_by_others(InodeId inode, uint64_t session) const;
  /// The metaserver started not longer than `limit` ago, and some other session that there was before has not told yet what it
  /// holds.
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
  /// It had ended, or was never there, or has_lost(): whatever it tells to a metaserver that does not know it may be others' by now.
  bool is_doubtful(uint64_t session) const;
  /// It is not known, or was known before the start and has not told yet.
  bool has_to_tell(uint64_t session) const;
  /// The minimum for one that is not known.
  TimePoint last_heard(uint64_t session) const;

  /// Ends sessions that were not heard of, and returns them with those that have ended by themselves.
  std::vector<uint64_t> expire();
  bool ended_by_silence(uint64_t session) const { return silent_.contains(session); }
  /// Sessions that ended by their silence, and whose changes need not be remembered any more.
  std::vector<uint64_t> to_forget();
  /// This process did not run for so long: clients could not be heard.
  void stood_still(Duration time);
  size_t count() const { return sessions_.size(); }

 private:
  struct Session {
    TimePoint last_heard;
    uint64_t last_number = 0;  ///< of its messages
    bool told_all = false;     ///< everything that it holds
    bool noted = false;        ///< durably
    bool lost = false;         ///< durably
    bool of_before = false;    ///< there since before the metaserver started
    std::set<InodeId> held;
    uint64_t generation = 0;   ///< of the pages that come now; 0: none do
    std::set<InodeId> listed;  ///< what they named, and what it has opened since the first came
    bool pages_lost = false;   ///< one of them told it of a loss
  };
  static Status check_room(const Session& session, const proto::KeepSessionRequest& request);
  void take_all(Session& session, const proto::KeepSessionRequest& request);
  void let_go(Session& session, InodeId inode);
  void take(Session& session, InodeId inode);

  const runtime::Clock& clock_;
  TimePoint loaded_ = TimePoint::min();
  TimePoint telling_until_ =
      TimePoint::min();  ///< sessions of before the start may still tell what they hold
  std::map<uint64_t, Session> sessions_;
  std::map<InodeId, size_t> holders_;
  std::vector<uint64_t> ended_;
  std::map<uint64_t, TimePoint> silent_;  ///< that have ended so, and since when
};

}  // namespace kintsugi::metaserver
