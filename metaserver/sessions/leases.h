/// Leases: the right of one session to keep back what it wrote to a file, or which names it gave in a directory, until somebody
/// else wants to see it.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include <boost/asio/awaitable.hpp>

#include "common/base/ids.h"
#include "common/base/status.h"
#include "common/proto/inode.pb.h"
#include "common/runtime/event.h"
#include "common/runtime/runtime.h"
#include "metaserver/sessions/sessions.h"

namespace kintsugi::metaserver {

/// While a session has the lease of an inode, what it wrote may be unknown to everybody else, and the inode's size and times old.
/// Whoever wants the inode settles it first: the session is asked to give the lease back, which it does once everything is
/// durable. One that is silent meanwhile loses the lease, and what it writes later is refused.
///
/// Leases are not durable. After a start of the metaserver those that sessions had are told by them, which settle() waits for.
class Leases {
 public:
  /// The silence after a recall that ends a lease.
  static constexpr Duration kTakeOver = std::chrono::seconds(10);
  /// A call that wants inodes waits so long: longer than for a silent session, or for one from before the start.
  static constexpr Duration kWait = kTakeOver + std::chrono::seconds(2);
  static constexpr Duration kTellAgain = std::chrono::seconds(1);
  static constexpr size_t kMaxOfSession = 100'000, kMaxRecalls = 1'000;
  static constexpr int kMaxLostAtOnce = 10'000;  ///< lost leases that one answer names at most

  /// Hears of leases that sessions lose by their silence.
  class Losses {
   public:
    /// Makes durable that the session loses a lease, before anybody else gets it (Sessions::lost_something).
    virtual asio::awaitable<Status> note_loss(uint64_t session) = 0;
    /// The session has lost it.
    virtual void lost(uint64_t session, InodeId inode) = 0;

   protected:
    ~Losses() = default;
  };

  /// References must outlive it. Without `losses` nobody hears of them.
  Leases(const runtime::Runtime& runtime, Sessions& sessions, Losses* losses = nullptr)
      : clock_(runtime.clock), sessions_(sessions), losses_(losses), settled_(runtime) {}

  /// Gives the session the lease of an inode that no other session holds or has a lease of. Returns false if it cannot
  /// have it, as before the session is noted durably (Sessions::noted): the next process of the metaserver must know to
  /// wait for it. Session 0 is none.
  bool grant(uint64_t session, InodeId inode);
  /// Gives the session the lease of a directory that it made in one that it has the lease of: nobody else can know it,
  /// and there may be more that it has made in it. Returns false if it has too many.
  bool inherit(uint64_t session, InodeId inode);
  /// Returns true if the session has the lease of the inode: what it kept back may come.
  bool owns(InodeId inode, uint64_t session) const {
    const auto found = leases_.find(inode);
    return found != leases_.end() && found->second.session == session;
  }
  /// Returns true if the session has the lease, or has lost it and not said yet that it has given up what it kept back:
  /// only the session knows what it did under the lease.
  bool has_to_tell(InodeId inode, uint64_t session) const;
  bool owned_by_another(InodeId inode, uint64_t session) const {
    const auto found = leases_.find(inode);
    return found != leases_.end() && found->second.session != session;
  }
  /// Ends the lease: the session needs it no longer, or was not given it after all.
  void give_back(uint64_t session, InodeId inode);
  /// Returns true if nothing has to be settled before `session` sees any inode.
  bool all_settled(uint64_t session) const {
    return !sessions_.others_have_to_tell(session, kTakeOver) &&
           (leases_.empty() || leases_.size() == owned_by(session));
  }
  /// Takes what a session tells of its leases, and answers it.
  void keep(const proto::KeepSessionRequest& request, proto::KeepSessionResponse& response);
  /// Ends all leases of a session that ends.
  void ended(ClientSession& session);

  /// Returns true if nothing has to be settled before `session` sees the inode.
  bool settled(InodeId inode, uint64_t session) const;
  /// How long the owner of a lease that somebody wants may keep it.
  enum class Patience {
    kWhileItSpeaks,  ///< kTakeOver after its last word
    kTenSeconds,     ///< kTakeOver after it was asked, whether it speaks or not
  };
  /// An inode, and the one session that may continue keeping things back of it; 0: none may.
  struct Wanted {
    InodeId inode;
    uint64_t by = 0;
  };
  /// Returns once nobody else keeps anything back of any of these inodes, all at the same moment. The owners of their leases are asked
  /// at once. kUnavailable: somebody still does after kWait, or at the deadline. Inodes that names lead to are settled
  /// by Settling, which looks anew.
  asio::awaitable<Status> settle(Context context, std::vector<Wanted> wanted,
                                 Patience patience = Patience::kWhileItSpeaks);
  asio::awaitable<Status> settle(Context context, const std::vector<InodeId>& inodes, uint64_t session,
                                 Patience patience = Patience::kWhileItSpeaks) {
    std::vector<Wanted> wanted;
    wanted.reserve(inodes.size());
    for (const InodeId inode : inodes)
      wanted.push_back({inode, session});
    return settle(context, std::move(wanted), patience);
  }
  asio::awaitable<Status> settle(Context context, InodeId inode, uint64_t session) {
    return settle(context, std::vector<Wanted>{{inode, session}});
  }
  /// How far leased() came.
  struct Cursor {
    uint64_t session = 0;
    InodeId inode;
  };
  /// Returns the next inodes that some session has a lease of, behind `after`, which becomes the last of them. Fewer
  /// than `at_most`: there are no more. What is granted meanwhile may be missing: grants() says whether something was.
  std::vector<InodeId> leased(Cursor& after, size_t at_most) const;
  uint64_t grants() const { return grants_; }
  /// While one exists nobody gets a lease that the session has not got already.
  class Pause {
   public:
    explicit Pause(Leases& leases) : leases_(leases) { ++leases_.pauses_; }
    ~Pause() { --leases_.pauses_; }
    Pause(const Pause&) = delete;

   private:
    Leases& leases_;
  };
  /// Checks whether what the session kept back of the inode may still come. kLeaseLost: it had the lease and lost it.
  /// kUnavailable: that is known once the session has told which leases it believes to have.
  Status check(InodeId inode, uint64_t session) const;

  /// Takes out the inodes whose leases the session is to give back.
  std::vector<InodeId> take_recalls(uint64_t session);
  /// Ends all waits.
  void stop();

  size_t count() const { return leases_.size(); }

 private:
  struct Lease {
    uint64_t session = 0;
    TimePoint recalled{};  ///< when somebody first wanted it; none: nobody yet
    TimePoint told{};      ///< time at which its owner was to be told of that the last time
  };
  size_t owned_by(uint64_t session) const {
    const ClientSession* found = sessions_.find(session);
    return found == nullptr ? 0 : found->leases.owned.size();
  }
  void give(ClientSession& session, uint64_t id, InodeId inode);
  void recall(InodeId inode, Lease& lease);
  /// Returns the first inode of which a session from before the start may have a lease that it has not told yet; none:
  /// there is no such inode.
  InodeId first_untold(const std::vector<Wanted>& wanted) const;
  TimePoint revoked_at(const Lease& lease, Patience patience) const;
  /// REQUIRES: the session has it, and the loss is noted.
  void revoke(InodeId inode, uint64_t session);

  const runtime::Clock& clock_;
  Sessions& sessions_;
  Losses* const losses_;
  std::unordered_map<InodeId, Lease> leases_;
  size_t pauses_ = 0;
  uint64_t grants_ = 0;  ///< leases that were given since the start
  bool stopping_ = false;
  runtime::Event settled_;  ///< leases were given back, lost or told
};

}  // namespace kintsugi::metaserver
