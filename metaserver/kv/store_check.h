/// Reads the metadata store's files in the background, so that damage is found while a copy of them may still be at
/// hand.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>

#include "common/runtime/clock.h"

namespace rocksdb {
class DB;
}

namespace kintsugi::metaserver {

/// A thread that compares the checksums of all table files each `interval`, file by file, at no more than
/// kBytesPerSecond. Damage is told in the log, with the file and where in it. Whoever reads the damaged block ends the
/// metaserver; until then all else is served.
class StoreCheck {
 public:
  static constexpr uint64_t kBytesPerSecond = 32 << 20;
  /// The first check comes at the latest so long after the start.
  static constexpr Duration kFirst = 10min;

  /// An interval of 0: it never checks.
  StoreCheck(std::shared_ptr<rocksdb::DB> db, Duration interval);
  /// Does not wait for the rest of a check.
  ~StoreCheck();
  StoreCheck(const StoreCheck&) = delete;

  uint64_t checks() const { return checks_; }  ///< checks that were completed
  uint64_t damaged_files() const {
    return damaged_files_;
  }  ///< the damage that the last check found, or the one that runs so far

 private:
  void run();
  /// False: it is to stop.
  bool check_all();
  bool pause(Duration time);

  const std::shared_ptr<rocksdb::DB> db_;
  const Duration interval_;
  std::atomic<uint64_t> checks_ = 0, damaged_files_ = 0;
  std::mutex mutex_;
  std::condition_variable stopping_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace kintsugi::metaserver
