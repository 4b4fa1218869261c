#include "common/runtime/production/activity_file.h"

#include <atomic>
#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/signals_blocked.h"
#include "common/log/log.h"

namespace kintsugi::runtime {

namespace {

namespace fs = std::filesystem;

std::string numbered(const std::string& path, int number) {
  const fs::path file(path);
  return (file.parent_path() /
          fmt::format("{}.{}{}", file.stem().string(), number, file.extension().string()))
      .string();
}

}  // namespace

std::string activity_path(const std::string& log_file) {
  const fs::path file(log_file);
  return (file.parent_path() / (file.stem().string() + ".activity" + file.extension().string())).string();
}

/// Lives as long as the thread, which may outlive the ActivityFile while its disk hangs.
struct ActivityFile::Shared {
  Shared(std::string given, ActivityLog& to_write) : path(std::move(given)), log(&to_write) {}

  void run();
  /// False: it was the last time.
  bool next(std::string& text);
  void write(std::string_view text);
  Status write_all(std::string_view text);
  Status open();
  Status append(std::string_view text);
  void rotate();
  void close();
  void lost();

  const std::string path;
  std::atomic<bool> reopen{false};
  std::mutex mutex;  ///< guards what follows, and is held while the log is used
  std::condition_variable changed;
  ActivityLog* log;  ///< null: nobody waits for the thread any more, and the log is gone
  bool stopping = false, ended = false;

  int fd = -1;  ///< descriptor of the file; like the members below, used by the thread only
  uint64_t bytes = 0;
  bool torn = false;    ///< the file ends within a line
  bool failed = false;  ///< whether the last write failed, and that was told
};

ActivityFile::ActivityFile(std::string path, ActivityLog& log)
    : shared_(std::make_shared<Shared>(std::move(path), log)) {
  const SignalsBlocked blocked;
  thread_ = std::thread([shared = shared_] { shared->run(); });
}

ActivityFile::~ActivityFile() {
  std::unique_lock lock(shared_->mutex);
  shared_->stopping = true;
  shared_->changed.notify_all();
  const bool ended = shared_->changed.wait_for(lock, kStopLimit, [this] { return shared_->ended; });
  shared_->log = nullptr;
  lock.unlock();
  if (ended) {
    thread_.join();
  } else {
    log::warning("stopped without waiting any longer for the disk of the activity log");
    thread_.detach();
  }
}

void ActivityFile::reopen() {
  shared_->reopen = true;
}

void ActivityFile::Shared::run() {
  for (bool more = true; more;) {
    std::string text;
    more = next(text);
    write(text);
  }
  close();
  const std::lock_guard lock(mutex);
  ended = true;
  changed.notify_all();
}

bool ActivityFile::Shared::next(std::string& text) {
  std::unique_lock lock(mutex);
  const bool last = changed.wait_for(lock, kInterval, [this] { return stopping; });
  if (log != nullptr) text = log->take();
  return !last;
}

void ActivityFile::Shared::write(std::string_view text) {
  if (text.empty()) return;
  if (reopen.exchange(false)) close();
  const Status written = write_all(text);
  if (!written.ok()) {
    lost();
    close();
    if (!failed)
      log::warning("the activity log is not written until its disk takes it: {}", written.to_string());
  }
  failed = !written.ok();
}

Status ActivityFile::Shared::write_all(std::string_view text) {
  KINTSUGI_TRY(open());
  if (bytes > 0 && bytes + text.size() > kMostBytes) {
    rotate();
    KINTSUGI_TRY(open());
  }
  // Behind a part of a line the next one would not be read as a line of its own.
  if (std::exchange(torn, false)) KINTSUGI_TRY(append("\n"));
  return append(text);
}

void ActivityFile::Shared::lost() {
  const std::lock_guard lock(mutex);
  if (log != nullptr) log->lost();
}

Status ActivityFile::Shared::open() {
  if (fd >= 0) return {};
  fd = ::open(path.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return status_from_errno(errno, "open " + path);
  struct stat found{};
  bytes = ::fstat(fd, &found) == 0 ? static_cast<uint64_t>(found.st_size) : 0;
  // A disk that became full, or a process that was killed, leaves a part of a line.
  char last = '\n';
  torn = bytes > 0 && ::pread(fd, &last, 1, static_cast<off_t>(bytes - 1)) == 1 && last != '\n';
  return {};
}

Status ActivityFile::Shared::append(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return status_from_errno(errno, "write " + path);
    bytes += static_cast<uint64_t>(written);
    text.remove_prefix(static_cast<size_t>(written));
  }
  return {};
}

void ActivityFile::Shared::rotate() {
  close();
  for (int number = kKeptFiles; number > 0; --number) {
    // A file that is not there yet is not renamed; whatever else fails shows when the log is written.
    std::error_code ignored;
    fs::rename(number == 1 ? path : numbered(path, number - 1), numbered(path, number), ignored);
  }
}

void ActivityFile::Shared::close() {
  if (fd >= 0) ::close(fd);
  fd = -1;
  bytes = 0;
  torn = false;
}

}  // namespace kintsugi::runtime
