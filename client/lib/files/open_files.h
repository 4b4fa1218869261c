/// All files that are open in this process.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include <boost/asio/awaitable.hpp>

#include "client/lib/dirty/dirty_memory.h"
#include "client/lib/files/files_options.h"
#include "client/lib/files/open_file.h"
#include "client/lib/leases/inode_calls.h"
#include "client/lib/leases/leased_locks.h"
#include "client/lib/leases/leased_names.h"
#include "client/lib/leases/session.h"
#include "client/lib/resources.h"

namespace kintsugi::client {

struct FilesShared;

/// One for a process, made by Client::open_files. It has one session with the metaserver. REQUIRES, before it is
/// destroyed: stop() has ended.
class OpenFiles {
 public:
  /// Counters for metrics and tests.
  struct Counts {
    uint64_t stripes_written = 0, extents_written = 0, flushes = 0;
    uint64_t dirty_bytes = 0;       ///< file data that is not stored yet
    uint64_t dirty_memory = 0;      ///< buffers that it takes, in bytes
    uint64_t locates = 0;           ///< calls for locations
    uint64_t windows_read = 0;      ///< windows of stripes that were read
    uint64_t read_ahead_bytes = 0;  ///< bytes that are held now
  };

  /// Counts what applications did. All are totals since the start but the last one, which is of now.
  struct Traffic {
    uint64_t read_bytes = 0, written_bytes = 0;
    uint64_t fetched_bytes = 0;  ///< bytes of reads that were not in memory
    uint64_t room_waits = 0;     ///< how often a write waited for memory
    uint64_t dirty_bytes = 0;    ///< memory that holds what is not stored yet
  };

  /// `memory` null: memory of this process. `journal` null, or all zero: a new session (Session).
  /// `name_log` (NameLog::kBytes), `own_locks` (OwnLocks::kBytes): memory that the next process continues with, too.
  OpenFiles(Resources& resources, FilesOptions options, std::unique_ptr<DirtyMemory> memory = nullptr,
            ChangeJournal* journal = nullptr, std::span<std::byte> name_log = {},
            std::span<std::byte> own_locks = {});
  ~OpenFiles();

  Session& session();
  InodeCalls& calls();
  LeasedLocks& locks();
  /// What a mount makes and looks up under leases of directories.
  LeasedNames& names();

  /// Opens the file by its number: asks for its attributes, and holds it. kNotFound, kStale; kIsDirectory.
  /// `for_writing`: with a write lease if that can be.
  asio::awaitable<Result<std::unique_ptr<OpenHandle>>> open(Context context, uint64_t inode,
                                                            bool for_writing = false);
  /// Opens the file without a call: the attributes were just told, and with them where the bytes lie. `held`: the
  /// metaserver knows that this session holds it.
  std::unique_ptr<OpenHandle> open(const proto::Attributes& attributes, bool held = false,
                                   const proto::OpenReadResponse* where = nullptr);
  /// Returns the file, when it is open or has something that is not written out; else null.
  std::unique_ptr<OpenFile> find(uint64_t inode);

  /// Changes attributes without a call, where a lease lets that wait. None: the metaserver has to be asked.
  std::optional<proto::Attributes> set_attributes(const proto::SetAttributesRequest& request);

  /// Ends the lease of a directory that nobody uses any more.
  void give_back(uint64_t inode);

  /// Returns true if something was written and is not durable yet.
  bool has_dirty() const;

  /// Appends that are asked for by a number are noted there (AppendLog::kBytes), so that the next process carries them
  /// out once. To be called before anything is opened.
  void note_appends(std::span<std::byte> region);
  /// Takes over what the process before left in the memory: these files have it as unwritten data. To be called once,
  /// before anything is opened. Returns how many bytes there are.
  uint64_t recover();
  /// Waits until everything that was written to any file before is durable; returns the first error.
  asio::awaitable<Status> sync_all(Context context);
  /// Writes everything out and ends the session; `hand_over`: leaves both to another process.
  asio::awaitable<Status> stop(bool hand_over = false);

  Counts counts() const;
  Traffic traffic() const;

 private:
  std::unique_ptr<FilesShared> shared_;
};

}  // namespace kintsugi::client
