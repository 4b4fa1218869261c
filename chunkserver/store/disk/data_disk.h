/// One disk of a chunkserver: a directory with fixed rooms, its free space and its state of health.
#pragma once

#include <functional>
#include <set>
#include <string>

#include <boost/asio/awaitable.hpp>

#include "chunkserver/store/disk/chunk_info.h"
#include "chunkserver/store/disk/disk_health.h"
#include "chunkserver/store/disk/disk_quarantine.h"
#include "chunkserver/store/disk/disk_room.h"
#include "common/base/status.h"
#include "common/rpc/rate_limit.h"
#include "common/runtime/disk.h"
#include "common/runtime/event.h"
#include "common/runtime/task_group.h"

namespace kintsugi::chunkserver {

/// The disk is dropped, alone, once its errors are too many (DiskHealth). Its directory holds:
///
/// ```
/// lock          root_guard.h; locked by the process that uses the directory
/// server_id     identity.h
/// tmp/          files that are being written; emptied at start
/// chunks/xx/    chunk_file.h, by the low byte of the stripe
/// segments/     segment_log.h
/// quarantine/   disk_quarantine.h; files that were found damaged, for people
/// ```
class DataDisk {
 public:
  static constexpr Duration kSpaceEvery = std::chrono::seconds(1);
  static constexpr size_t kMostErrorLines = 1;  ///< errors of the disk that are logged in a minute

  /// `disk` and `health`, which knows of the calls to the disk, outlive it. Transfers of its chunks may have so many
  /// of the server's `buffers` at once: what a disk that hangs keeps, others lack.
  DataDisk(const runtime::Runtime& runtime, runtime::Disk& disk, DiskHealth& health, std::string root,
           size_t buffers)
      : disk_(disk),
        health_(health),
        root_(std::move(root)),
        quarantine_(disk, quarantine_directory()),
        share_of_buffers_(runtime, buffers) {}
  DataDisk(const DataDisk&) = delete;

  runtime::Disk& disk() const { return disk_; }
  const std::string& root() const { return root_; }
  std::string temporary_directory() const { return root_ + "/tmp"; }
  std::string chunks_directory() const { return root_ + "/chunks"; }
  std::string segments_directory() const { return root_ + "/segments"; }
  std::string quarantine_directory() const { return root_ + "/quarantine"; }
  std::string chunk_directory(ChunkId id) const;
  std::string chunk_path(const ChunkInfo& info) const;
  std::string new_temporary_path(ChunkId id);

  /// Makes the rooms, removes what was left in tmp/, and learns how much is free.
  asio::awaitable<Status> prepare();
  /// Makes the directory of a chunk, durably on return; costs nothing when it was made before.
  asio::awaitable<Status> ensure_chunk_directory(ChunkId id);
  /// The directory of the chunk was not there when it was needed: it is made anew for the next one.
  void forget_chunk_directory(ChunkId id) { made_.erase(chunk_directory(id)); }
  /// The chunk's file has the name that an older version gave it, and cannot get another one.
  void keep_old_name(ChunkId id) { old_names_.insert(id); }
  void forget_old_name(ChunkId id) { old_names_.erase(id); }
  /// Moves a bad file out of the way, if it can.
  asio::awaitable<void> quarantine(std::string path, std::string name);
  /// The files that are there now.
  const DiskQuarantine& quarantined() const { return quarantine_; }

  const DiskHealth& health() const { return health_; }
  /// Hands the status through, and has its health judge it when it is an error. May call `on_failed`.
  Status note(Status status);
  bool failed() const { return health_.failed(); }
  bool answers() const { return health_.answers(); }
  bool takes_writes() const { return health_.takes_writes(); }
  /// It reports no free bytes, as one that is short of inodes does; or it answered "no space" a short while ago, and has not
  /// reported more room since.
  bool full() const { return reports_no_room() || room_.full(health_.clock().now()); }
  /// kIoError: the disk failed. kUnavailable: it hangs, so that nobody should begin to wait for it.
  Status check_answers() const;
  /// Drops the disk; `on_failed` runs once.
  void fail(const Status& why);
  std::function<void()> on_failed;

  runtime::Semaphore& share_of_buffers() { return share_of_buffers_; }

  // Free space as last refreshed from the disk, less what writers were promised since.
  asio::awaitable<Status> refresh_space();
  /// Refreshes it every kSpaceEvery, until the disk has failed or `tasks` stop. Whoever wants to know takes what is
  /// known.
  asio::awaitable<void> keep_space_fresh(runtime::TaskGroup& tasks);
  /// A file in tmp/ was removed or renamed: until that is durable, a loss of power may bring it back there.
  void note_left_tmp() { left_tmp_ = true; }
  uint64_t total_bytes() const { return space_.total_bytes; }
  uint64_t device() const { return space_.device; }  ///< see runtime::DiskSpace::device
  /// What chunks may take. 0 when it is full, whatever it reports.
  uint64_t free_bytes() const {
    const uint64_t taken = promised_ + kept_free_;
    return space_.free_bytes > taken && !full() ? space_.free_bytes - taken : 0;
  }
  /// Chunks leave so many bytes free: somebody needs them to give back more.
  void keep_free(uint64_t bytes) { kept_free_ = bytes; }
  /// Bytes that chunks which are being written may still need.
  uint64_t promised_bytes() const { return promised_; }
  void promise(uint64_t bytes) { promised_ += bytes; }
  void take_back_promise(uint64_t bytes, uint64_t written);

 private:
  /// One line for each error of the disk that may damage or lose a chunk; not more than kMostErrorLines in a minute.
  void log_error(const Status& error);
  bool reports_no_room() const { return space_.total_bytes > 0 && space_.free_bytes == 0; }
  asio::awaitable<Status> make_rooms();
  asio::awaitable<Status> empty_temporary_directory();

  runtime::Disk& disk_;
  DiskHealth& health_;
  std::string root_;
  DiskQuarantine quarantine_;
  runtime::Semaphore share_of_buffers_;
  uint64_t next_name_ = 1;
  bool left_tmp_ = true;
  std::set<std::string> made_;
  std::set<ChunkId> old_names_;  ///< chunks whose files still have the names that older versions gave
  runtime::DiskSpace space_;
  DiskRoom room_;
  uint64_t promised_ = 0;  ///< sum of the largest possible sizes of the chunks being written
  uint64_t kept_free_ = 0;
  rpc::RateLimit logged_errors_{kMostErrorLines, std::chrono::minutes(1)};
};

}  // namespace kintsugi::chunkserver
