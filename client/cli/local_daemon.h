/// One daemon of a local cluster: started in a session of its own, found again through its pid file.
#pragma once

#include <chrono>
#include <string>
#include <utility>

#include <sys/types.h>

#include "common/base/status.h"

namespace kintsugi::cli {

struct LocalDaemon {
  std::string name;      ///< "metaserver", "chunkserver-3"
  std::string binary;    ///< absolute path
  std::string config;    ///< its TOML file
  std::string pid_file;  ///< "PID START_TIME": the start time tells a reused pid from the daemon
  std::string output;    ///< what it writes before its log is open, or when it dies
  std::string log;

  /// 0 when it is not running.
  pid_t pid() const;
  Status start() const;
  /// SIGTERM, and SIGKILL once `patience` has passed. Ok when it is not running. Removes the pid file.
  Status stop(std::chrono::milliseconds patience) const;
  /// The end of its output and log, for an error message on one line.
  std::string last_words() const;
};

/// Keeps other starts and stops away from the daemons of a directory while it lives. Two starts at once would
/// launch every daemon twice and note the pids of those that lost the race for the ports.
class DirectoryLock {
 public:
  /// kConflict when somebody holds it.
  static Result<DirectoryLock> take(const std::string& directory);
  DirectoryLock(DirectoryLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  ~DirectoryLock();

 private:
  explicit DirectoryLock(int fd) : fd_(fd) {}
  int fd_;
};

/// A file's contents at once, replaced atomically.
Status write_file(const std::string& path, const std::string& contents, mode_t mode = 0644);
Result<std::string> read_file(const std::string& path);

}  // namespace kintsugi::cli
