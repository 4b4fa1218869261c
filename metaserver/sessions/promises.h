/// Promises to sessions whose kernels believe what they were told: they hear of it when somebody else changes it.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include <boost/asio/awaitable.hpp>

#include "common/base/ids.h"
#include "common/proto/inode.pb.h"
#include "common/proto/promises.h"
#include "common/runtime/event.h"
#include "common/runtime/runtime.h"
#include "metaserver/schema/transaction.h"
#include "metaserver/sessions/sessions.h"

namespace kintsugi::metaserver {

/// A change is made, those who may believe something else are told, and then the change is answered: whoever learns of
/// it sees it on every mount. A session that says nothing is waited for until its kernel believes nothing any more
/// (kBelieved). A second change that is made before a session has heard of the first waits for that session too.
/// Promises are not durable: after a start, changes wait until those of before have passed.
class Promises {
 public:
  /// A kernel counts in ticks of its own.
  static constexpr Duration kHolds = kBelieved + std::chrono::milliseconds(50);
  static constexpr size_t kMaxPromises = 1'000'000;
  static constexpr size_t kMaxUntold = 10'000;      ///< changes that one session has not heard of
  static constexpr size_t kAtOnce = 1'000;          ///< one answer has at most so many
  static constexpr size_t kAtOnceBytes = 16 << 10;  ///< bytes of names: a longer answer has one change
  static constexpr size_t kMaxShared = 10'000;      ///< directories, of one session

  /// References must outlive it.
  Promises(const runtime::Runtime& runtime, Sessions& sessions)
      : clock_(runtime.clock), sessions_(sessions), heard_(runtime) {}

  /// Notes that the metaserver has started, and that there were sessions before.
  void started() { before_until_ = clock_.now() + kHolds; }
  /// Notes what the session says of itself. One that has said nothing yet may believe.
  void session_is(uint64_t session, bool believes);
  /// Ends the promises to a session that ends: it believes nothing any more, unless it ends by its silence and has
  /// never said anything of itself. Then somebody may still be told as it.
  void ended(uint64_t session, bool by_silence);
  void stop();

  /// What a kernel may believe of an inode: its attributes, or names in it, that they are there or not. Bits.
  enum What : uint8_t { kAttributes = 1, kNames = 2 };
  /// Notes that the session is about to be told this. Session 0 believes nothing.
  void note_promise(uint64_t session, InodeId inode, int what = kAttributes);

  /// Notes that the session has moved a name: its kernel believes of it where it is now what it believed where it was
  /// before.
  void moved(uint64_t session, InodeId from, InodeId to);

  /// Who has to hear of something before it is answered.
  class Hearers {
   public:
    bool empty() const { return waits_.empty() && until_ == TimePoint::min(); }

   private:
    friend class Promises;
    struct Wait {
      uint64_t session, number;
      TimePoint until;
    };
    std::vector<Wait> waits_;
    TimePoint until_ = TimePoint::min();  ///< nobody knows who believes what
  };
  /// Notes that everything that the transaction changes is other than was told from now on. REQUIRES: is called when
  /// others see the change. Returns who has to hear of it.
  Hearers note_change(const Transaction& transaction);
  /// Notes that the attributes of this inode may be other than was told from now on. Returns who has to hear of it.
  Hearers note_change(InodeId inode, uint64_t by);
  /// Returns who has to hear of changes that were made before.
  Hearers unheard();
  /// Waits until all hearers have heard, or believe nothing any more.
  asio::awaitable<void> await_heard(Hearers hearers);

  /// Adds to `response` what the session has not been told yet. Returns false if there is nothing. `after`: see
  /// AwaitRecallsRequest.
  bool tell(uint64_t session, uint64_t after, proto::AwaitRecallsResponse& response);
  /// Notes that the kernel of the session believes nothing any more that changed up to this number.
  void session_heard(uint64_t session, uint64_t number);

  size_t count() const { return count_[0] + count_[1]; }

 private:
  struct Promise {
    uint64_t session;
    TimePoint made;
    int what;
  };
  using Table = std::unordered_map<InodeId, std::vector<Promise>>;
  /// A session that has not heard of a change: it may still believe what was before, and every later change of the
  /// inode waits for it as well.
  struct Pending {
    uint64_t session, number;
    TimePoint until;
  };
  /// The number of a change that a session is not told of: only time ends what it believes.
  static constexpr uint64_t kNeverTold = UINT64_MAX;
  /// Returns true if the session has said that it believes nothing, or has ended.
  bool believes_nothing(uint64_t session) const;
  /// Returns what the session believes, once it has said something of itself; else null.
  SessionBeliefs* beliefs_of(uint64_t session);
  void turn();
  void change(InodeId inode, const std::vector<std::string>& names, uint64_t by, Hearers& hearers);
  void add_pending(InodeId inode, Pending pending);
  void drop_expired(SessionBeliefs& beliefs) const;
  bool is_shared(uint64_t session, InodeId directory) const;
  bool believes_names(uint64_t session, InodeId directory) const;
  void add(uint64_t session, InodeId inode, int what);

  const runtime::Clock& clock_;
  Sessions& sessions_;
  runtime::Event heard_;
  /// Sessions that have ended: their promises are in the tables for another moment.
  std::unordered_map<uint64_t, TimePoint> ended_;
  /// Promises since `turned_`, and from the kHolds before: what is older holds no more.
  Table tables_[2];
  std::unordered_map<InodeId, std::vector<Pending>> pending_;
  size_t count_[2] = {0, 0};
  TimePoint turned_ = TimePoint::min();
  TimePoint before_until_ = TimePoint::min();  ///< promises of a former process
  /// Until then there were more promises than are kept one by one.
  TimePoint unlisted_until_ = TimePoint::min();
  TimePoint untellable_until_ = TimePoint::min();  ///< the last of `pending_` that are kNeverTold
  bool stopping_ = false;
};

}  // namespace kintsugi::metaserver
