/// The metaserver's knowledge of this client: what it has open, which leases and locks it has, which of its changes
/// were carried out.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>

#include "client/lib/leases/change_numbers.h"
#include "client/lib/leases/heard_changes.h"
#include "client/lib/leases/held_inodes.h"
#include "client/lib/leases/lease_user.h"
#include "client/lib/leases/session_locks.h"
#include "client/lib/leases/write_leases.h"
#include "client/lib/resources.h"
#include "common/base/status.h"
#include "common/rpc/client.h"
#include "common/rpc/rate_limit.h"
#include "common/runtime/event.h"
#include "common/runtime/task_group.h"

namespace kintsugi::client {

/// Tells the metaserver what its parts have for it, in pages, and hears of recalls and of changes by others.
/// REQUIRES, before it is destroyed: stop() has ended.
class Session {
 public:
  static constexpr Duration kKeepInterval = std::chrono::seconds(5);
  static constexpr size_t kMaxInodesAtOnce = 10'000;  ///< inodes in one call at most

  /// `user` outlives it, and is asked from start() on. `journal` as ChangeNumbers has it, `own_locks` as OwnLocks;
  /// both outlive it.
  Session(Resources& resources, LeaseUser& user, ChangeJournal* journal = nullptr,
          std::span<std::byte> own_locks = {});
  ~Session();

  // ---- its parts
  uint64_t id() const { return numbers_.session(); }
  ChangeNumbers& numbers() { return numbers_; }
  HeldInodes& held() { return held_; }
  const HeldInodes& held() const { return held_; }
  WriteLeases& leases() { return leases_; }
  const WriteLeases& leases() const { return leases_; }
  SessionLocks& locks() { return locks_; }

  // ---- what users of OpenFiles ask
  void hold(uint64_t inode) { held_.hold(inode); }
  void release(uint64_t inode) { held_.release(inode); }
  /// Returns true if some inode is open and the metaserver has not heard of it: another process may take its last name.
  bool has_untold() const { return all_ || held_.has_news_of_holds(); }
  bool has_lease(uint64_t inode) const { return leases_.has(inode); }
  bool has_locks(uint64_t inode, bool whole_file, uint64_t owner) const {
    return locks_.has(inode, whole_file, owner);
  }
  using LocksAt = SessionLocks::At;
  LocksAt locks_at(uint64_t inode, bool takes) const {
    return locks_.at(inode, leases_.has_or_ends(inode), takes, resources_.now());
  }
  /// Tells now what is new, as fsync of a directory or a test may want.
  asio::awaitable<Status> tell(Context context);

  // ---- what a kernel may believe
  using Changes = HeardChanges::Changes;
  /// Called with what others have changed; returns once the kernel does not believe anything else any more. One after
  /// the other.
  std::function<asio::awaitable<void>(Changes)> on_changed;
  Duration believable(TimePoint asked, Duration usually) const {
    return changes_.believable(asked, usually, resources_.now());
  }
  bool is_shared(uint64_t directory) const { return changes_.is_shared(directory, resources_.now()); }

  /// Begins to tell the metaserver every kKeepInterval, and to wait for recalls. `believes`: somebody passes answers
  /// on to a kernel that believes them for a while.
  void start(bool believes);
  /// Neither asks nor tells the user of anything any more: what is recalled is given back with the end of the session.
  void forget_user() { has_user_ = false; }
  /// Ends the session, unless `keep`: then another process continues with it.
  asio::awaitable<void> stop(bool keep = false);

 private:
  /// What is told in pages when the metaserver may not know it: all that there was when the first was sent.
  struct Everything {
    uint64_t generation = 0;
    std::deque<uint64_t> holds, leases;
    bool locks = true;  ///< whether the first page has yet to tell the locks
  };
  Everything everything();
  void add_page(Everything& all, proto::KeepSessionRequest& request) const;
  void add_given_back(proto::KeepSessionRequest& request, bool with_locks);
  asio::awaitable<Status> tell_all_pages(Context context, bool& tell_all);
  asio::awaitable<Status> tell_page(Context context, proto::KeepSessionRequest request, bool& tell_all);
  asio::awaitable<Status> send(Context context, proto::KeepSessionRequest request, bool& tell_all);
  void take(bool asked_locks, const proto::KeepSessionResponse& response);
  void lost(const google::protobuf::RepeatedField<uint64_t>& inodes);
  asio::awaitable<Status> tell_in_background();
  asio::awaitable<void> keep();
  asio::awaitable<void> await_recalls();
  asio::awaitable<void> hear();

  Resources& resources_;
  LeaseUser& user_;
  bool has_user_ = true, believes_ = false;
  ChangeNumbers numbers_;
  HeldInodes held_;
  WriteLeases leases_;
  SessionLocks locks_;
  HeardChanges changes_;
  uint64_t told_ = 0;  ///< messages that were sent so far
  bool all_ = true;    ///< whether everything is to be told
  bool hearing_ = false;
  TimePoint heard_;  ///< a message was answered last, or this began
  rpc::RateLimit lines_{1,
                        std::chrono::minutes(1)};  ///< lines of the log while the metaserver does not hear it
  runtime::Semaphore telling_;
  uint64_t telling_span_ = 0;  ///< the region that tells now, for those who wait for it
  rpc::Client recalls_;        ///< a client of its own: stopping it ends the call that waits for recalls
  runtime::TaskGroup tasks_;
};

}  // namespace kintsugi::client
