/// Decides who may have the write lease of an inode.
#pragma once

#include <optional>

#include "common/runtime/runtime.h"
#include "metaserver/cluster/server_registry.h"
#include "metaserver/kv/key_value_store.h"
#include "metaserver/schema/transaction.h"
#include "metaserver/service/store_room.h"
#include "metaserver/sessions/clients.h"

namespace kintsugi::metaserver {

class LeaseGrants {
 public:
  static constexpr uint64_t kReserve = 1ull << 30;  ///< bytes that each server must have free

  /// References outlive it.
  LeaseGrants(const runtime::Clock& clock, const KeyValueStore& store, StoreRoom& room,
              const ServerRegistry& servers, Clients& clients)
      : clock_(clock), store_(store), room_(room), servers_(servers), clients_(clients) {}

  /// Returns true if a session may keep back what it writes to the file: whatever it keeps back finds room later, so
  /// that nobody has to be told of an error after a close. Not so below a quota, nor while a server's disks are nearly
  /// full.
  bool may_keep_back(InodeId inode);
  bool may_keep_back(const proto::StoredInode& inode);
  /// Gives the session the write lease of a file, if it may have it. While it has it, it decides about locks there, so
  /// nobody else may have one.
  bool grant(uint64_t session, InodeId file) {
    return may_keep_back(file) && !clients_.locks.any_of_others(file, session) &&
           clients_.leases.grant(session, file);
  }

 private:
  bool have_room() const;

  const runtime::Clock& clock_;
  const KeyValueStore& store_;
  StoreRoom& room_;
  const ServerRegistry& servers_;
  Clients& clients_;
  bool has_room_ = false;  ///< the last answer of have_room()
  std::optional<TimePoint> known_until_;
};

}  // namespace kintsugi::metaserver
