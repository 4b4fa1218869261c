/// One daemon of a local cluster: it is started in a session of its own and found again through its pid file.
#pragma once

#include <chrono>
#include <string>
#include <utility>

#include <sys/types.h>

#include "common/base/status.h"

namespace kintsugi::cli {

struct LocalDaemon {
  std::string name;    ///< "metaserver", "chunkserver-3"
  std::string binary;  ///< absolute path
  std::string config;  ///< path of its TOML file
  /// "PID START_TIME": the start time tells the daemon from a later process with the same pid.
  std::string pid_file;
  /// Its standard output and error: used before its log is open, and when it crashes.
  std::string output;
  std::string log;  ///< path of its log file

  /// The process that runs, or 0 when none does.
  pid_t pid() const;
  /// Starts it and writes the pid file. Does not wait until it serves. REQUIRES: it is not running.
  Status start() const;
  /// Sends SIGTERM, and SIGKILL once `patience` has passed, and removes the pid file. Ok when it is not running.
  /// kDeadlineExceeded when it survives even that.
  Status stop(std::chrono::milliseconds patience) const;
  /// The last line of its output or of its log, whichever was written last, for an error message.
  std::string last_words() const;
};

/// Keeps other starts and stops away from the daemons of a directory while it lives. Two starts at once would launch
/// every daemon twice and note the pids of those that lost the race for the ports.
class DirectoryLock {
 public:
  /// Takes the lock without waiting. kConflict when somebody holds it.
  static Result<DirectoryLock> take(const std::string& directory);
  DirectoryLock(DirectoryLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  ~DirectoryLock();

 private:
  explicit DirectoryLock(int fd) : fd_(fd) {}
  int fd_;
};

/// Replaces a file atomically: readers see the old contents or the new ones, never a part.
Status write_file(const std::string& path, const std::string& contents, mode_t mode = 0644);
/// A file's contents, at most the first 64 MiB.
Result<std::string> read_file(const std::string& path);

}  // namespace kintsugi::cli
