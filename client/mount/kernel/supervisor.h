/// The parent of the process that serves a mount. It holds /dev/fuse and the shared state, starts the child, starts
/// the next one when that dies, and does nothing else, so that there is nothing in it that could fail.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <sys/types.h>

#include "common/base/status.h"

namespace kintsugi::mount {

struct SupervisorOptions {
  int device = -1;        ///< descriptor from mount_at(); the supervisor owns it
  std::string directory;  ///< absolute path of the mount point
  /// The child's command line, with its argv[0]. The child is the binary that this process runs; it finds its
  /// descriptors with ChildSeat::take().
  std::vector<std::string> arguments;
  uint64_t state_bytes = uint64_t{1} << 30;  ///< size of the file system's own part of SharedState
  int tell_ready = -1;                       ///< see detach() (terminal.h); the supervisor owns it
  bool unmounts = true;  ///< false: whoever made the mount detaches the directory (handed_mount.h)
};

/// One thread, which must be the only one of its process from the start: the supervisor forks.
///
/// - A child that dies is replaced at once; when children die within a second, again and again, after a pause of up to
///   five seconds. It never gives up while the file system is mounted. Only when the very first child ends before it
///   was ready, the file system is unmounted and run() returns the child's exit status.
/// - SIGTERM and SIGINT: the child is asked to write back what is dirty, and answers within a bounded time, also when
///   it cannot; then the directory is unmounted (lazily: files that are open stay usable for half a minute, and fail
///   after it). A second signal unmounts without waiting for the child, a third one does not wait for open files, a
///   fourth one kills the child.
/// - SIGHUP: the child is asked to write back and to leave, and the binary that is now at the path takes over. If that
///   one ends before it is ready, the former binary does.
/// - A child that hangs is left alone: it may hold the only copy of what it could not write yet.
/// - Tells systemd (NOTIFY_SOCKET) when it is ready and when it stops.
class Supervisor {
 public:
  explicit Supervisor(SupervisorOptions options);
  ~Supervisor();
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;

  /// Returns when the file system is gone and the child has ended: the exit status of the program.
  int run();

 private:
  Status set_up();
  bool start_child();
  pid_t start_notifier(int socket);
  void exec_child(int binary, int control, int notifier);
  void on_signals();
  void on_control();
  void on_child_ended(int status);
  void reap();
  void ask_child(char order);
  void start_unmount();
  void end_child();
  int poll_timeout_ms() const;
  void became_ready();
  bool gone() const;
  bool left_behind() const;

  SupervisorOptions options_;
  std::string binary_path_;
  std::string mounted_as_;  ///< see mounted_device()
  int binary_ = -1;         // descriptor of the binary that runs
  int former_binary_ = -1;  // the binary that ran before, while a new one is tried
  bool hand_over_ = false;  // the next child runs the binary that is at the path now
  int state_ = -1;
  int signals_ = -1;
  int control_ = -1;
  pid_t child_ = 0;
  bool child_ready_ = false;
  bool ever_ready_ = false;
  bool stopping_ = false;
  bool unmounting_ = false;
  int64_t end_at_ms_ = 0;  // when to stop waiting for open files; 0: there is no such limit
  bool ending_ = false;    // the child was asked to end, even with files open
  bool failed_ = false;
  bool aborted_ = false;
  int first_status_ = 0;
  int64_t started_ms_ = 0;
  int64_t start_at_ms_ = 0;
  unsigned quick_deaths_ = 0;
  std::vector<char*> argv_, environment_;
  std::string descriptors_;  // environment variable that tells the child its descriptors
  static constexpr size_t kDescriptorsBytes = 128;
};

}  // namespace kintsugi::mount
