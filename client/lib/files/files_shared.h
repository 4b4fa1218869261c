/// What all open files of a process share.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <unordered_map>

#include "client/lib/dirty/dirty_buffers.h"
#include "client/lib/dirty/flush_groups.h"
#include "client/lib/files/append_log.h"
#include "client/lib/files/file_leases.h"
#include "client/lib/files/files_options.h"
#include "client/lib/files/locations.h"
#include "client/lib/files/open_files.h"
#include "client/lib/leases/inode_calls.h"
#include "client/lib/leases/leased_locks.h"
#include "client/lib/leases/leased_names.h"
#include "client/lib/leases/repeated_calls.h"
#include "client/lib/leases/reserved_ids.h"
#include "client/lib/leases/session.h"
#include "client/lib/leases/unsent_names.h"
#include "client/lib/read/packed_reads.h"
#include "client/lib/resources.h"
#include "common/runtime/event.h"
#include "common/runtime/task_group.h"

namespace kintsugi::client {

class OpenFileState;

/// Single-threaded, like everything here. REQUIRES, before it is destroyed: `tasks` was joined.
struct FilesShared {
  static constexpr size_t kFlushesAtOnce = 64;  ///< the limit for files that have stripes of their own
  static constexpr size_t kBegunAtOnce = 1024;  ///< flushes that are begun because it is time

  FilesShared(Resources& the_resources, FilesOptions the_options, std::unique_ptr<DirtyMemory> the_memory,
              ChangeJournal* journal, std::span<std::byte> name_log, std::span<std::byte> own_locks);

  Context context() const;
  /// When an operation that begins now is given up.
  TimePoint give_up() const;

  // ---- dirty files
  /// Has the files that are dirty the longest written out, as long as less than half of the buffers are free or will be.
  void relieve();
  /// A file that has so many buffers may take more of them.
  bool may_take(size_t buffers_of_file) const {
    return waiting_for_room == 0 || buffers_of_file < buffers.total() / 2;
  }
  /// Waits until buffers may have come free. kUnavailable: none did.
  asio::awaitable<Status> wait_for_room(Context context);
  /// Wakes those that wait for buffers.
  void freed() { room.notify_all(); }
  /// Forgets a file that is neither open nor dirty, and gives its lease back.
  void forget(uint64_t inode);
  /// Writes out what is due, and drops what was read ahead and nobody took.
  asio::awaitable<void> tick();

  Resources& resources;
  const FilesOptions options;
  const std::unique_ptr<DirtyMemory> memory;
  FileLeases leases;
  Session session;
  RepeatedCalls direct;  ///< calls that go ahead of those in `calls`
  std::unique_ptr<AppendLog> appends = std::make_unique<AppendLog>();
  runtime::TaskGroup tasks;  ///< flushes and reads ahead
  UnsentNames unsent;
  InodeCalls calls;
  LeasedLocks locks;
  ReservedIds ids;
  LeasedNames names;
  FlushGroups groups;
  DirtyBuffers buffers;
  LocationBudget locations;
  PackedReads packed;
  bool handed_over = false;       ///< whether another process continues: nothing is written out here any more
  uint64_t read_ahead_bytes = 0;  ///< bytes that are held, or being read
  std::unordered_map<uint64_t, std::shared_ptr<OpenFileState>> files;
  /// Times since which files are dirty, each with its inode (DirtySince).
  std::set<std::pair<TimePoint, uint64_t>> dirty_since;
  size_t waiting_for_room = 0;  ///< writers that wait for room
  runtime::Event room;          ///< notified when buffers came free
  runtime::Semaphore flush_turns;
  OpenFiles::Counts counts;
  OpenFiles::Traffic traffic;
  runtime::TaskGroup ticker;
};

/// Since when one file has something to write out, as FilesShared is told of it.
class DirtySince {
 public:
  DirtySince(FilesShared& shared, uint64_t inode) : shared_(shared), inode_(inode) {}
  ~DirtySince() { clear(); }
  DirtySince(const DirtySince&) = delete;
  /// It has from now on, unless it had before.
  void set_now();
  void clear();

 private:
  FilesShared& shared_;
  const uint64_t inode_;
  std::optional<TimePoint> since_;
};

}  // namespace kintsugi::client
