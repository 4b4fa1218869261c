/// The child's side of a Supervisor: what it inherits, and what the parent asks of it.
#pragma once

#include <memory>

#include <boost/asio/posix/stream_descriptor.hpp>

#include "client/mount/kernel/connection.h"
#include "client/mount/kernel/notifier.h"
#include "client/mount/kernel/shared_state.h"

namespace kintsugi::mount {

/// Names the environment variable with the descriptors' numbers: "device,state,control,notifier".
inline constexpr const char* kSeatVariable = "KINTSUGI_MOUNT_SEAT";

/// Single bytes over the control socket.
inline constexpr char kOrderFlush = 'F', kOrderHandOver = 'H', kOrderEnd = 'E', kSayReady = 'R',
                      kSayFlushed = 'f';

/// The child's exit status when the connection was aborted, and the dead mount may be left behind.
inline constexpr int kExitAborted = 76;

/// What a seat tells whoever serves the mount.
class MountEvents {
 public:
  virtual ~MountEvents() = default;
  /// The mount answers; the caller of the program is told next.
  virtual void ready() {}
  /// Writes back all that is dirty. `unmounts`: the mount is going to end, and an answer has to come within a bounded
  /// time.
  virtual asio::awaitable<Status> write_back(bool /*unmounts*/) { co_return Status{}; }
  /// The file system is gone. Requests that are under way may still wait for something: serve() returns when they have
  /// ended.
  virtual void gone() {}
};

class ChildSeat {
 public:
  /// A null pointer: no supervisor started this process. To be called early, before threads: signals that are meant for
  /// the parent (SIGTERM, SIGINT, SIGHUP) are ignored from then on.
  static Result<std::unique_ptr<ChildSeat>> take();
  ~ChildSeat();

  SharedState& state() { return *state_; }
  /// True when another process served this mount before: the room of state() holds what it left.
  bool takes_over() const { return takes_over_; }
  /// serve() ended since another process is going to serve the mount: what lies in state() is for that one.
  bool handed_over() const { return handed_over_; }
  /// A socket for a Notifier, once.
  int take_notifier_socket() { return std::exchange(notifier_, -1); }

  /// Serves the mount with `file_system` until it is unmounted, or handed over to the next process; returns the exit
  /// status of the program.
  asio::awaitable<int> serve(runtime::ProductionRuntime& runtime, FileSystem& file_system,
                             ConnectionOptions options, MountEvents& events);

 private:
  ChildSeat(int device, std::unique_ptr<SharedState> state, int control, int notifier, bool takes_over);
  void say(char what);
  asio::awaitable<void> obey(asio::posix::stream_descriptor& control, Connection& connection,
                             MountEvents& events);

  int device_;
  std::unique_ptr<SharedState> state_;
  int control_;
  int notifier_;
  bool takes_over_;
  bool handed_over_ = false;
};

}  // namespace kintsugi::mount
