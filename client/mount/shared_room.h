/// What the cluster's mount keeps in the memory that outlives its process: the session, the journal of changes that
/// may have been carried out, the names that the metaserver does not know yet, the locks, where appends went, and the
/// bytes that are not durable yet.
#pragma once

#include <memory>
#include <span>

#include "client/lib/dirty/dirty_memory.h"
#include "client/lib/files/append_log.h"
#include "client/lib/leases/name_log.h"
#include "client/lib/leases/own_locks.h"
#include "client/lib/leases/session.h"

namespace kintsugi::mount {

/// A view of SharedState::room(). The next process finds in it what this one leaves.
class SharedRoom {
 public:
  /// REQUIRES: the room has bytes_needed().
  explicit SharedRoom(std::span<std::byte> room);

  static size_t bytes_needed(size_t dirty_region_bytes);
  client::ChangeJournal& journal() { return *journal_; }
  std::span<std::byte> name_log() const { return names_; }
  std::span<std::byte> own_locks() const { return locks_; }
  std::span<std::byte> appends() const { return appends_; }
  std::unique_ptr<client::DirtyMemory> dirty_memory() const;

 private:
  client::ChangeJournal* journal_;
  std::span<std::byte> names_, locks_, appends_, dirty_;
};

}  // namespace kintsugi::mount
