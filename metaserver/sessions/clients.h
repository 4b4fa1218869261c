/// All client sessions: applies one message of a session (KeepSession) to its inodes, leases, locks and promises, and
/// ends a session as a whole.
#pragma once

#include <cstdint>
#include <optional>

#include <boost/asio/awaitable.hpp>

#include "common/base/status.h"
#include "common/proto/file_locks.h"
#include "common/proto/inode.pb.h"
#include "common/runtime/runtime.h"
#include "metaserver/schema/transaction.h"
#include "metaserver/sessions/leased_locks.h"
#include "metaserver/sessions/leases.h"
#include "metaserver/sessions/lock_waits.h"
#include "metaserver/sessions/promises.h"
#include "metaserver/sessions/sessions.h"

namespace kintsugi::metaserver {

class Clients final : public Leases::Losses {
 public:
  /// The store must outlive it.
  Clients(const runtime::Runtime& runtime, KeyValueStore& store)
      : sessions(runtime),
        leases(runtime, sessions, this),
        promises(runtime, sessions),
        lock_waits(runtime.clock),
        store_(store),
        leased_locks_(locks, leases) {}

  void load(const Reader& reader);

  /// What the next process of the metaserver has to know of a session that has spoken.
  struct Durable {
    bool noted = false;        ///< whether there is such a session
    std::optional<bool> lost;  ///< whether it has lost something and does not know it; none: nothing new
  };
  /// Takes a message of a session, answers it, and puts what is to be durable into the transaction. When that is
  /// committed, committed() is to be called. Errors: as Sessions::keep.
  Result<Durable> keep(const proto::KeepSessionRequest& request, proto::KeepSessionResponse& response,
                       Transaction& transaction);
  void committed(uint64_t session, const Durable& durable);

  /// Ends the session if it has been silent for too long. Returns true if it has ended: its leases and locks are free
  /// from now on, so that its end is to be submitted to the store in the same turn: what others write then comes after
  /// it in the log.
  bool end_if_silent(uint64_t session);
  /// Wakes everybody who waits for a session, or as one.
  void stop();

  // Leases::Losses
  asio::awaitable<Status> note_loss(uint64_t session) override;
  void lost(uint64_t session, InodeId inode) override { leased_locks_.lost(session, inode); }

  Sessions sessions;
  Leases leases;
  Promises promises;
  FileLocks locks;
  LockWaits lock_waits;

 private:
  void end(uint64_t session, bool by_silence);

  KeyValueStore& store_;
  LeasedLocks leased_locks_;
};

}  // namespace kintsugi::metaserver
