/// The metaserver's knowledge of this client: which inodes it has open, and which of its changes it carried out.
#pragma once

#include <cstdint>
#include <map>
#include <set>

#include "client/lib/resources.h"
#include "common/base/status.h"
#include "common/proto/inode.pb.h"
#include "common/runtime/event.h"
#include "common/runtime/task_group.h"

namespace kintsugi::client {

/// REQUIRES, before it is destroyed: stop() has ended.
class Session {
 public:
  /// A change with number n begins only once number n - kMaxChangesUnderWay has ended (inode.proto).
  static constexpr uint64_t kMaxChangesUnderWay = 64;
  static constexpr Duration kKeepInterval = std::chrono::seconds(5);
  static constexpr size_t kMaxInodesAtOnce = 10'000;  ///< in one call

  /// `id` 0: a random one. Another process's id goes on with what that one held.
  explicit Session(Resources& resources, uint64_t id = 0);
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
  /// Waits while too many changes are under way.
  asio::awaitable<Turn> begin_change();

  /// The inode is open from now on, once more. The metaserver hears of it within kKeepInterval.
  void hold(uint64_t inode);
  /// As hold(), for one that the metaserver knows to be held since it answered (`hold_for`).
  void held(uint64_t inode);
  /// Undoes one hold().
  void release(uint64_t inode);
  bool is_held(uint64_t inode) const { return holds_.contains(inode); }
  /// Tells now what is new, as fsync of a directory or a test may want.
  asio::awaitable<Status> tell();

  /// Begins to tell the metaserver every kKeepInterval.
  void start();
  /// Ends the session, unless `keep`: then another process goes on with it.
  asio::awaitable<void> stop(bool keep = false);

 private:
  asio::awaitable<void> keep();
  asio::awaitable<Status> send(proto::KeepSessionRequest request, bool& tell_all);
  void end_change(uint64_t number);

  Resources& resources_;
  const uint64_t id_;
  uint64_t next_number_ = 1;
  std::set<uint64_t> under_way_;                  ///< numbers of changes
  std::map<uint64_t, uint64_t> holds_;            ///< inode -> how often
  std::set<uint64_t> news_held_, news_released_;  ///< not told yet
  bool all_ = false;                              ///< the next message holds everything
  runtime::Event ended_;                          ///< a change
  runtime::Semaphore telling_;
  runtime::TaskGroup tasks_;
};

}  // namespace kintsugi::client
