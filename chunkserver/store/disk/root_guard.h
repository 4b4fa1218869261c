/// Keeps the directory of one disk for this process, and notices when somebody takes it away.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <boost/asio/awaitable.hpp>

#include "chunkserver/store/disk/data_disk.h"
#include "common/runtime/disk.h"
#include "common/runtime/task_group.h"

namespace kintsugi::chunkserver {

/// The file `lock` in the directory is locked from lock() to release(). While watch() runs, the disk fails, as one with
/// I/O errors does, when its directory or one of the rooms in it is removed or replaced: files that are open would hide
/// that for as long as the process lives. `disk` outlives it.
class RootGuard {
 public:
  static constexpr Duration kCheckEvery = std::chrono::seconds(5);
  /// How long lock() waits for a process that was killed just now, and may still be on its way out.
  static constexpr Duration kPatience = std::chrono::seconds(2);
  static constexpr Duration kTryEvery = std::chrono::milliseconds(100);

  explicit RootGuard(DataDisk& disk) : disk_(disk) {}
  RootGuard(const RootGuard&) = delete;

  /// Makes the directory if it is new, and nothing else in it than the lock. kConflict: another process uses it, in one
  /// clear line; other errors: the disk cannot be used.
  asio::awaitable<Status> lock(runtime::TaskGroup& tasks, const runtime::Clock& clock);
  /// Looks every kCheckEvery, until the disk has failed or `tasks` stop. REQUIRES: lock() succeeded, and the rooms are
  /// made.
  asio::awaitable<void> watch(runtime::TaskGroup& tasks);
  /// Lets another process have the directory. Idempotent.
  void release() { lock_.reset(); }

 private:
  using Identities = std::vector<std::pair<std::string, runtime::FileIdentity>>;

  std::string lock_path() const { return disk_.root() + "/lock"; }
  /// Remembers what the paths name now that must not change.
  asio::awaitable<Status> remember();
  /// Whatever is not certain, such as an error of the disk, is no proof that the directory went away.
  asio::awaitable<void> check();

  DataDisk& disk_;
  std::unique_ptr<runtime::FileLock> lock_;
  Identities known_;  ///< (path, what it named when it was locked)
};

}  // namespace kintsugi::chunkserver
