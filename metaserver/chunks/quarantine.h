/// Chunks that no stripe names and of which it is not proven that nobody needs them.
///
/// A chunk may be deleted only on proof that it is garbage: its stripe was deleted by this metadata, or this process
/// gave its id out and knows that its upload has ended. Everything else that turns up on servers may be all that is
/// left of somebody's file, if the metadata is not what it should be. It stays where it is, readable under its name,
/// until it has been in quarantine for the retention; then it becomes garbage. When better metadata is put back, its
/// chunks are simply named again: nothing has to be moved.
///
/// The retention counts the time that metaservers have run with this metadata, not the wall clock: neither a clock that
/// jumps nor a cluster that was switched off for a week ends it.
#pragma once

#include <vector>

#include "common/base/ids.h"
#include "common/proto/meta.pb.h"
#include "common/proto/store.pb.h"
#include "common/runtime/clock.h"
#include "metaserver/cluster/options.h"
#include "metaserver/schema/transaction.h"

namespace kintsugi::metaserver {

class Quarantine {
 public:
  static constexpr size_t kKeysAStep = 1000;
  static constexpr uint32_t kMaxListed = 1000;
  /// How often the running time is made durable: a crash makes a quarantine longer by at most so much.
  static constexpr Duration kTick = std::chrono::minutes(10);

  /// References outlive it.
  Quarantine(const MetaServerOptions& options, const runtime::Clock& clock)
      : options_(options), clock_(clock), started_(clock.now()) {}

  void load(const Reader& reader);

  /// Puts the chunk into quarantine, unless it is there. True: it was not.
  bool add(Transaction& transaction, ServerId server, ChunkId chunk, bool foreign);

  /// Makes the running time durable and turns chunks whose retention is over into garbage, whose servers are added to
  /// `servers`; a bounded number of chunks. False: this round is done.
  bool step(Transaction& transaction, std::vector<ServerId>& servers);

  proto::ListQuarantineResponse list(const Reader& reader, const proto::ListQuarantineRequest& request) const;
  uint64_t count() const { return count_; }

  /// Forgets chunks of a server that leaves the cluster, a bounded number. False: none are left.
  bool forget(Transaction& transaction, ServerId server);

  /// Begins the retention anew, or makes garbage now, of a bounded number of chunks from `from` on; of one stripe if
  /// it is not 0. `from` is moved on. Returns how many; `servers` as above. Done when `from` is empty.
  uint64_t change(Transaction& transaction, proto::ChangeQuarantineRequest::Change change, StripeId stripe,
                  std::string& from, std::vector<ServerId>& servers);

 private:
  uint64_t running_seconds() const;
  uint64_t retention_seconds() const;

  const MetaServerOptions& options_;
  const runtime::Clock& clock_;
  const TimePoint started_;
  uint64_t ran_before_ = 0;  ///< sum of the seconds that former processes ran
  uint64_t count_ = 0;
  std::string next_key_;  ///< the key at which step() continues
};

}  // namespace kintsugi::metaserver
