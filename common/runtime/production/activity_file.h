/// The file of an activity log, written by a thread of its own. Whatever fails here is no matter of the daemon's.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "common/runtime/activity_log.h"

namespace kintsugi::runtime {

class ActivityFile {
 public:
  static constexpr Duration kInterval = 100ms;  ///< between two writes
  static constexpr uint64_t kMostBytes = uint64_t{64} << 20;
  static constexpr int kKeptFiles =
      3;  ///< older ones; "d.activity.1.log" is the newest of those of "d.activity.log"

  /// The file is appended to, and made when it is not there. REQUIRES: `log` outlives it.
  ActivityFile(std::string path, ActivityLog& log);
  /// Writes the lines that were logged before it is destroyed.
  ~ActivityFile();
  ActivityFile(const ActivityFile&) = delete;
  ActivityFile& operator=(const ActivityFile&) = delete;

  /// The file is opened again by its path before the next lines are written.
  void reopen() { reopen_ = true; }

 private:
  void run();
  void write(std::string_view text);
  Status open();
  Status append(std::string_view text);
  void rotate();
  void close();

  const std::string path_;
  ActivityLog& log_;
  std::atomic<bool> reopen_{false};
  std::mutex mutex_;
  std::condition_variable stopped_;
  bool stopping_ = false;  ///< guarded by mutex_
  int fd_ = -1;            ///< this and the rest: the thread's only
  uint64_t bytes_ = 0;
  bool failed_ = false;  ///< the last write did; told once
  std::thread thread_;
};

/// Where the activity log goes that belongs to a log file: "/var/log/d.log" has "/var/log/d.activity.log".
std::string activity_path(const std::string& log_file);

}  // namespace kintsugi::runtime
