/// The file of an activity log, written by a thread of its own. Whatever fails here is no matter of the daemon's.
#pragma once

#include <memory>
#include <string>
#include <thread>

#include "common/runtime/activity_log.h"

namespace kintsugi::runtime {

class ActivityFile {
 public:
  static constexpr Duration kInterval = 100ms;  ///< time between two writes
  /// The end waits for a disk that hangs no longer than this, and leaves the thread to itself then.
  static constexpr Duration kStopLimit = 1s;
  static constexpr uint64_t kMostBytes = uint64_t{64} << 20;
  /// Older files that are kept; "d.activity.1.log" is the newest of those of "d.activity.log".
  static constexpr int kKeptFiles = 3;

  /// The file is appended to, and made when it is not there. A line that a write left torn is ended first. REQUIRES: `log`
  /// outlives it.
  ActivityFile(std::string path, ActivityLog& log);
  /// Writes the lines that were logged before it is destroyed, as far as the disk takes them.
  ~ActivityFile();
  ActivityFile(const ActivityFile&) = delete;
  ActivityFile& operator=(const ActivityFile&) = delete;

  /// The file is opened again by its path before the next lines are written.
  void reopen();

 private:
  struct Shared;

  std::shared_ptr<Shared> shared_;
  std::thread thread_;
};

/// Where the activity log goes that belongs to a log file: "/var/log/d.log" has "/var/log/d.activity.log".
std::string activity_path(const std::string& log_file);

}  // namespace kintsugi::runtime
