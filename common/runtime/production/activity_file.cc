#include "common/runtime/production/activity_file.h"

#include <filesystem>

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

ActivityFile::ActivityFile(std::string path, ActivityLog& log) : path_(std::move(path)), log_(log) {
  const SignalsBlocked blocked;
  thread_ = std::thread([this] { run(); });
}

ActivityFile::~ActivityFile() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  stopped_.notify_all();
  thread_.join();
}

void ActivityFile::run() {
  for (bool last = false; !last;) {
    {
      std::unique_lock lock(mutex_);
      last = stopped_.wait_for(lock, kInterval, [this] { return stopping_; });
    }
    write(log_.take());
  }
  close();
}

void ActivityFile::write(std::string_view text) {
  if (text.empty()) return;
  if (reopen_.exchange(false)) close();
  Status written = open();
  if (written.ok() && bytes_ > 0 && bytes_ + text.size() > kMostBytes) {
    rotate();
    written = open();
  }
  if (written.ok()) written = append(text);
  if (!written.ok()) {
    log_.lost();
    close();
    if (!failed_)
      log::warning("the activity log is not written until its disk takes it: {}", written.to_string());
  }
  failed_ = !written.ok();
}

Status ActivityFile::open() {
  if (fd_ >= 0) return {};
  fd_ = ::open(path_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
  if (fd_ < 0) return status_from_errno(errno, "open " + path_);
  struct stat found{};
  bytes_ = ::fstat(fd_, &found) == 0 ? static_cast<uint64_t>(found.st_size) : 0;
  return {};
}

Status ActivityFile::append(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(fd_, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return status_from_errno(errno, "write " + path_);
    bytes_ += static_cast<uint64_t>(written);
    text.remove_prefix(static_cast<size_t>(written));
  }
  return {};
}

void ActivityFile::rotate() {
  close();
  for (int number = kKeptFiles; number > 0; --number) {
    // A file that is not there yet is not renamed; whatever else fails shows when the log is written.
    std::error_code ignored;
    fs::rename(number == 1 ? path_ : numbered(path_, number - 1), numbered(path_, number), ignored);
  }
}

void ActivityFile::close() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
  bytes_ = 0;
}

}  // namespace kintsugi::runtime
