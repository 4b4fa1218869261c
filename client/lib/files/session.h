/// The metaserver's knowledge of this client: which inodes it has open, and which of its changes it carried out.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <unordered_map>
#include <vector>

#include "client/lib/files/own_locks.h"
#include "client/lib/resources.h"
#include "common/base/status.h"
#include "common/proto/inode.pb.h"
#include "common/proto/promises.h"
#include "common/rpc/client.h"
#include "common/runtime/event.h"
#include "common/runtime/task_group.h"

namespace kintsugi::client {

/// A change with number n begins only once number n - kMaxChangesUnderWay has ended, and the changes of so many processes that
/// go on with one session are remembered (inode.proto).
inline constexpr uint64_t kMaxChangesUnderWay = 64, kGenerations = 4;

/// Which changes a process has begun, in memory that may outlive it: the next process of the session repeats what it is asked
/// once more under the same number, and the metaserver knows it. All zero at first.
struct ChangeJournal {
  uint64_t session = 0;
  uint32_t generation = 0;  ///< of the process that uses it now, from 1 on
  struct Slot {
    uint64_t number = 0;
    uint64_t tag =
        0;  ///< what the change was made for, as the process names it; 0: nothing that could come again
    uint32_t generation = 0;
  };
  Slot slots[kGenerations * kMaxChangesUnderWay];
};

/// REQUIRES, before it is destroyed: stop() has ended.
class Session {
 public:
  static constexpr Duration kKeepInterval = std::chrono::seconds(5);
  static constexpr size_t kMaxInodesAtOnce = 10'000;  ///< in one call
  /// After it was told something the metaserver gives no lock that this session may have to others for longer than this, even
  /// if it starts anew meanwhile and hears nothing from here (Leases::kTakeOver).
  static constexpr Duration kDecidesFor = std::chrono::seconds(8);

  /// `journal` null: nobody goes on with this session. One that another process has left goes on with its session. It
  /// outlives the session, as does `own_locks` (OwnLocks).
  explicit Session(Resources& resources, ChangeJournal* journal = nullptr,
                   std::span<std::byte> own_locks = {});
  ~Session();

  uint64_t id() const { return id_; }

  /// The number of one change, from before its first attempt until its last one has ended. Move-only.
  class Turn {
   public:
    Turn(Turn&& other) noexcept : session_(std::exchange(other.session_, nullptr)), change_(other.change_) {}
    ~Turn();
    const proto::Change& change() const { return change_; }

   private:
    friend class Session;
    Turn(Session* session, proto::Change change) : session_(session), change_(std::move(change)) {}
    Session* session_;
    proto::Change change_;
  };
  /// Waits while too many changes are under way, on behalf of `context`. A `tag` that a former process of the session used gets the same number once more.
  asio::awaitable<Turn> begin_change(Context context, uint64_t tag = 0);

  /// The inode is open from now on, once more. The metaserver hears of it within kKeepInterval.
  void hold(uint64_t inode);
  /// As hold(), for one that the metaserver knows to be held since it answered (`hold_for`).
  void held(uint64_t inode);
  /// Undoes one hold().
  void release(uint64_t inode);
  /// The metaserver may have come to hold it after it was told of the release.
  void release_again(uint64_t inode) { news_released_.insert(inode); }
  bool is_held(uint64_t inode) const { return holds_.contains(inode); }
  /// Some inode is open and the metaserver has not heard of it: another process may take its last name.
  bool has_untold() const { return all_ || !news_held_.empty(); }
  /// Tells now what is new, as fsync of a directory or a test may want.
  asio::awaitable<Status> tell(Context context);

  // ---- write leases: what was written to such an inode may be kept back
  /// One may be asked for: none is on its way back.
  bool may_want_lease(uint64_t inode) const {
    return !giving_back_.contains(inode) && !ending_.contains(inode);
  }
  /// While calls are under way that may bring a lease, recalls may come before their answers, and give_back() may overtake them.
  class Asking {
   public:
    explicit Asking(Session& session) : session_(session) { ++session_.asking_; }
    ~Asking() {
      if (--session_.asking_ == 0) session_.ended_early_.clear();
    }
    Asking(const Asking&) = delete;

   private:
    Session& session_;
  };
  /// The metaserver granted it. REQUIRES: an Asking from before the call was sent.
  void granted(uint64_t inode) {
    if (ended_early_.contains(inode)) return;
    leases_.insert(inode);
    news_given_back_.erase(inode);
  }
  /// This session made the inode, with a lease, and the metaserver will hear of both (LeasedNames); from known() on it has.
  void made(uint64_t inode) {
    leases_.insert(inode);
    unknown_.insert(inode);
  }
  void known(uint64_t inode) { unknown_.erase(inode); }
  bool is_unknown(uint64_t inode) const { return unknown_.contains(inode); }
  /// The process before this one had the lease, and left something that was done under it.
  void took_over_lease(uint64_t inode) { leases_.insert(inode); }
  bool has_lease(uint64_t inode) const { return leases_.contains(inode); }
  /// It is being given back already.
  bool is_ending(uint64_t inode) const { return ending_.contains(inode); }
  /// From here on nothing more is kept back; give_back() follows once what was is durable.
  void end_lease(uint64_t inode) {
    const bool had = leases_.erase(inode) > 0;
    if (!had && asking_ > 0) ended_early_.insert(inode);
    ending_.try_emplace(inode, had);
  }
  /// The metaserver hears of it with the next word, or by tell().
  void give_back(uint64_t inode);

  /// Called for inodes that somebody else wants to see: end_lease(), write out, give_back() and tell().
  std::function<void(const std::vector<uint64_t>&)> on_recall = [](const std::vector<uint64_t>&) {};

  /// Called for inodes whose lease was lost: what was kept back of them must be given up. They are given back already.
  std::function<void(const std::vector<uint64_t>&)> on_lost = [](const std::vector<uint64_t>&) {};

  // ---- what a kernel may believe that it was told by this session (common/proto/promises.h)
  using Changes = std::vector<proto::ChangedInode>;
  /// Somebody passes answers on to a kernel that believes them for a while. Set before start().
  bool believes = false;
  /// Called with what others have changed; returns once the kernel does not believe anything else any more. One after the other.
  std::function<asio::awaitable<void>(Changes)> on_changed;
  /// How long the answer to what was asked at `asked` may be believed, where `usually` is for how long after the question.
  Duration believable(TimePoint asked, Duration usually) const;
  /// Others change names in the directory: none are to be believed.
  bool is_shared(uint64_t directory) const;

  // ---- locks: a metaserver that starts anew is told of what there is
  OwnLocks& locks() { return locks_; }
  /// That owner of this session has such locks, or may have them from the process before.
  bool has_locks(uint64_t inode, bool whole_file, uint64_t owner) const {
    return ask_locks_ || locks_.table().any(InodeId{inode}, whole_file, owner);
  }
  /// Who decides about locks of the inode: this session while it has the lease and takes no longer than kDecidesFor to hear from
  /// the metaserver. kUnclear: tell() has to come first.
  enum class LocksAt { kHere, kMetaserver, kUnclear };
  LocksAt locks_at(uint64_t inode, bool takes) const;
  /// This session does: what the metaserver knows of locks there is old. REQUIRES: kHere.
  void decides(uint64_t inode) { decided_.insert(inode); }

  /// How many more files this client would compact now (Compactor).
  std::function<uint32_t()> room_for_compaction = [] { return 0; };
  /// The metaserver asks that these files be compacted.
  std::function<void(const std::vector<uint64_t>&)> on_compact = [](const std::vector<uint64_t>&) {};

  /// Begins to tell the metaserver every kKeepInterval, and to wait for recalls.
  void start();
  /// Ends the session, unless `keep`: then another process goes on with it.
  asio::awaitable<void> stop(bool keep = false);

 private:
  /// What is told in pages when the metaserver may not know it: all that there was when the first was sent.
  struct Everything {
    uint64_t generation = 0;
    std::deque<uint64_t> holds, leases;
    bool locks = true;  ///< they are to be told, by the first page
  };
  Everything everything();
  void add_page(Everything& all, proto::KeepSessionRequest& request) const;
  void add_news(proto::KeepSessionRequest& request);
  void add_given_back(proto::KeepSessionRequest& request, bool with_locks);
  asio::awaitable<Status> tell_all_pages(Context context, bool& tell_all);
  asio::awaitable<Status> tell_page(Context context, proto::KeepSessionRequest request, bool& tell_all);
  asio::awaitable<Status> tell_in_background();
  asio::awaitable<void> keep();
  asio::awaitable<void> await_recalls();
  asio::awaitable<Status> send(Context context, proto::KeepSessionRequest request, bool& tell_all);
  void lost(const google::protobuf::RepeatedField<uint64_t>& inodes);
  void changed(const proto::AwaitRecallsResponse& response);
  asio::awaitable<void> hear();
  void end_change(uint64_t number);

  Resources& resources_;
  ChangeJournal own_journal_;
  ChangeJournal& journal_;
  const bool takes_over_;
  const uint64_t id_;
  uint64_t next_number_ = 1;
  std::set<uint64_t> under_way_;                  ///< numbers of changes
  std::map<uint64_t, uint64_t> holds_;            ///< inode -> how often
  std::set<uint64_t> news_held_, news_released_;  ///< not told yet
  std::set<uint64_t> leases_;                     ///< write leases
  std::map<uint64_t, bool> ending_;  ///< that are given back soon; whether it was known to have them
  std::set<uint64_t> unknown_;       ///< leases of inodes that the metaserver has not heard of
  std::set<uint64_t> ended_early_;   ///< recalled or given back while `asking_`
  size_t asking_ = 0;
  std::set<uint64_t> news_given_back_;  ///< not told yet
  std::set<uint64_t> giving_back_;      ///< being told, or told without an answer
  OwnLocks locks_;
  std::set<uint64_t>
      decided_;  ///< inodes of whose locks the metaserver will be told when their lease is given back
  TimePoint decides_until_ = TimePoint::min();
  uint64_t told_ = 0;  ///< messages
  /// Changes by others: the last one's number that was told, those that on_changed() is to be called with, and up to which
  /// number it has returned.
  uint64_t told_change_ = 0, heard_change_ = 0;
  struct Unheard {
    uint64_t number;
    TimePoint told;
    Changes changes;
  };
  std::deque<Unheard> unheard_;
  bool hearing_ = false;
  TimePoint changed_at_ = TimePoint::min();               ///< when the last was told
  std::unordered_map<uint64_t, TimePoint> shared_until_;  ///< directories in which no names are believed
  bool all_ = true;                                       ///< everything is to be told
  bool telling_all_ = false;                              ///< pages of it are under way
  bool ask_locks_ = takes_over_;                          ///< those of the process before are not known yet
  runtime::Event ended_;                                  ///< a change
  runtime::Semaphore telling_;
  uint64_t telling_span_ = 0;  ///< the region that tells now, for those who wait for it
  rpc::Client recalls_;        ///< of its own: stopping it ends the call that waits for recalls
  runtime::TaskGroup tasks_;
};

}  // namespace kintsugi::client
