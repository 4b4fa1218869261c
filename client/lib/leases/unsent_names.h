/// Changes of names and attributes that were answered here and that the metaserver does not know yet: how they get
/// there.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>

#include "client/lib/leases/name_log.h"
#include "client/lib/leases/repeated_calls.h"
#include "client/lib/leases/session.h"
#include "client/lib/resources.h"
#include "common/rpc/frame.h"
#include "common/runtime/event.h"
#include "common/runtime/task_group.h"

namespace kintsugi::client {

/// What became of a change at the metaserver. `last`: there is no later one of the inode that it has not heard of.
class NameChangesHearer {
 public:
  virtual ~NameChangesHearer() = default;
  virtual void carried_out(const proto::NameChange& change, const proto::WriteNamesResponse::Written& written,
                           bool last) = 0;
};

/// A queue that is in the log (NameLog) until the metaserver has it. Any other call by inode is sent after what is in
/// it (InodeCalls). One call with changes is under way at a time, so they arrive in their order. Single-threaded.
class UnsentNames {
 public:
  static constexpr size_t kAlong = 64;  ///< changes at most that go along with another call
  static constexpr size_t kAlongBytes = 64 << 10;
  static constexpr size_t kAtOnce = 500;                            ///< changes in one call
  static constexpr size_t kAtOnceBytes = rpc::kMaxHeaderBytes / 2;  ///< unless one alone has more
  static constexpr size_t kBeginAt = 128;  ///< changes that wait until a call is begun

  /// `region` of the log: see NameLog. What is referred to outlives it; `tasks` runs the background work.
  UnsentNames(Resources& resources, Session& session, RepeatedCalls& calls, runtime::TaskGroup& tasks,
              std::span<std::byte> region);

  /// Tells `hearer` of every change from now on, in their order. REQUIRES: before anything is sent.
  void set_hearer(NameChangesHearer& hearer) { hearer_ = &hearer; }
  const NameLog& log() const { return log_; }
  bool pending() const { return !log_.empty(); }
  bool is_little() const { return log_.size() <= kAlong && log_.bytes() <= kAlongBytes; }
  /// Returns true if attributes of the inode were changed, and the metaserver does not know it yet.
  bool has_attributes_of(uint64_t inode) const;
  /// Returns true if a call is under way. Without one the metaserver may still have been sent what is pending, by a
  /// call that had no answer.
  bool is_sending() const { return sending_; }
  /// Returns true if the process is ending: nothing more should be answered here.
  bool stopping() const { return tasks_.stopping(); }

  /// Appends a change. Returns false if there is no room for it.
  bool append(proto::NameChange change);
  /// Waits until what was changed before is durable at the metaserver, or refused: one by one, or all that go in one call
  /// if this client may not write names any more, as with another token. kUnavailable, kDeadlineExceeded;
  /// kPermissionDenied: the token has ended, and nothing is given up before the metaserver says what another one may do.
  asio::awaitable<Status> flush(Context context);
  /// Begins a flush() and does not wait for it.
  void start_flush();
  /// Begins a flush() when something has waited for so long.
  void tick(Duration at_most);

  /// Puts all that is pending into a call that goes to the metaserver anyway, of which sent_along() has to be told
  /// (nothing: it is not carried out). Returns false if it is being sent already, or is too much.
  bool send_along(const Context& context, proto::WriteNamesRequest& request);
  void sent_along(const proto::WriteNamesRequest& request, const proto::WriteNamesResponse* answer);

 private:
  asio::awaitable<Status> send_some(Context context);
  asio::awaitable<Status> send(Context context, const proto::WriteNamesRequest& request,
                               proto::WriteNamesResponse& answer);
  /// Returns how many changes go in one call.
  size_t next_count() const;
  /// Fills in the first changes of the log, as they are to be made by now.
  void fill(proto::WriteNamesRequest& request, size_t count);
  Status take(const proto::WriteNamesRequest& request, const proto::WriteNamesResponse& answer);
  asio::awaitable<void> flush_in_background();

  Resources& resources_;
  Session& session_;
  RepeatedCalls& calls_;
  runtime::TaskGroup& tasks_;
  NameChangesHearer* hearer_ = nullptr;
  NameLog log_;
  std::unordered_map<uint64_t, size_t> changes_of_;  ///< how many changes of each inode are in the log
  std::optional<TimePoint> waits_since_;
  bool sending_ = false, in_background_ = false;
  uint64_t appended_ = 0, dropped_ = 0;  ///< numbers of changes since the beginning
  uint64_t number_;  ///< number of the latest message; a later process of the session has higher ones
  uint64_t sending_span_ = 0;  ///< the region that sends now, for those who wait for it
  runtime::Event sent_;
};

}  // namespace kintsugi::client
