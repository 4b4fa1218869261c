/// A file system in memory, mounted with the real kernel in a directory of its own, and served by a thread of the test.
#pragma once

#include <future>
#include <memory>
#include <optional>
#include <string>

#include "client/mount/kernel/connection.h"
#include "client/mount/kernel/mount_point.h"
#include "client/mount/kernel/notifier.h"
#include "common/runtime/production/run.h"
#include "tests/mount/memory_file_system.h"

namespace kintsugi::mount {

/// Why nothing can be mounted on this machine, in one line.
std::optional<std::string> why_no_mounts();

#define KINTSUGI_NEEDS_FUSE() \
  if (const auto why = ::kintsugi::mount::why_no_mounts()) GTEST_SKIP() << *why

/// A new directory below /tmp, removed with what is in it.
class ScratchDirectory {
 public:
  explicit ScratchDirectory(const std::string& below = "/tmp");
  ~ScratchDirectory();
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

template <class FS = MemoryFileSystem>
class Mounted {
 public:
  explicit Mounted(ConnectionOptions options = {}, MountOptions mount_options = {}) {
    auto device = mount_at(scratch_.path(), mount_options);
    KINTSUGI_ASSERT(device.has_value());
    device_ = *device;
    file_system = std::make_unique<FS>(runtime.runtime());
    connection = std::make_unique<Connection>(runtime, device_, *file_system, std::move(options));
    notifier_thread_ = std::make_unique<NotifierThread>(device_);
    notifier = std::make_unique<Notifier>(runtime.io(), runtime.runtime(), notifier_thread_->take_socket());
    loop_ = std::make_unique<runtime::LoopThread>(runtime);
    served_ = std::async(std::launch::async, [this] { return run_on(runtime, connection->serve()); });
  }

  ~Mounted() {
    if (served_.valid()) (void)end(true);
    run_on(runtime, [this]() -> asio::awaitable<void> {
      notifier.reset();
      connection.reset();
      co_return;
    }());
    notifier_thread_.reset();
    loop_.reset();
    file_system.reset();
  }

  /// Unmounts, and returns how serve() ended.
  Result<Ending> end(bool lazy = false) {
    if (const Status status = unmount(scratch_.path(), lazy); !status.ok() && !lazy) return status;
    return served_.get();
  }

  std::string path(const std::string& name = "") const {
    return scratch_.path() + (name.empty() ? "" : "/" + name);
  }
  /// Runs on the thread of the loop.
  template <class F>
  auto on_loop(F function) {
    return run_on(runtime, [](F f) -> asio::awaitable<decltype(f())> { co_return f(); }(std::move(function)));
  }

  runtime::ProductionRuntime runtime;
  std::unique_ptr<FS> file_system;
  std::unique_ptr<Connection> connection;
  std::unique_ptr<Notifier> notifier;

 private:
  ScratchDirectory scratch_;
  int device_ = -1;
  std::unique_ptr<NotifierThread> notifier_thread_;
  std::unique_ptr<runtime::LoopThread> loop_;
  std::future<Result<Ending>> served_;
};

/// Waits up to ten seconds for what `holds` says.
template <class F>
bool eventually(F holds) {
  for (int i = 0; i < 1000 * KINTSUGI_TIME_FACTOR; ++i) {
    if (holds()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return holds();
}

/// -1 becomes -errno.
inline long outcome(long result) {
  return result < 0 ? -errno : result;
}

std::string contents_of(const std::string& path);
void write_file(const std::string& path, std::string_view contents);

}  // namespace kintsugi::mount
