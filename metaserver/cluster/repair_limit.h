/// The limit that operators set for repairs of the whole cluster while it runs.
#pragma once

#include <algorithm>
#include <cstdint>

#include "common/proto/store.pb.h"
#include "metaserver/schema/transaction.h"

namespace kintsugi::metaserver {

/// Bytes a second that repairs and moves may send, and receive, at each server; urgent repairs are exempt (decision
/// 067). It is kept in the record of the cluster. Chunkservers learn it from the answers to their heartbeats, and repair
/// managers plan with what server_state() says.
class RepairLimit {
 public:
  void load(const proto::StoredCluster& cluster) { limit_ = cluster.repair_limit_bytes_per_second(); }
  /// Puts what must be durable into the transaction; set() follows once that is committed.
  static void store(Transaction& transaction, uint64_t bytes_per_second);
  void set(uint64_t bytes_per_second) { limit_ = bytes_per_second; }

  uint64_t bytes_per_second() const { return limit_; }  ///< 0: none
  /// Returns the limit that holds at a server with this limit of its own (0: none). 0: neither is set.
  uint64_t at_server(uint64_t own) const {
    return own == 0 || limit_ == 0 ? std::max(own, limit_) : std::min(own, limit_);
  }

 private:
  uint64_t limit_ = 0;
};

}  // namespace kintsugi::metaserver
