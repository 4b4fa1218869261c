#include "client/cli/local_daemon.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char** environ;

namespace kintsugi::cli {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxFileBytes = 64 << 20;
constexpr size_t kLastWordsBytes = 400;
/// Bytes read from the end of a log; its last line is shorter.
constexpr std::streamoff kTailBytes = 64 << 10;

/// Clock ticks from the boot to the start of the process; 0 when there is no such process, or only its unreaped
/// remains.
uint64_t start_time(pid_t pid) {
  auto text = read_file(fmt::format("/proc/{}/stat", pid));
  if (!text) return 0;
  const size_t name_end = text->rfind(')');  // the name in parentheses may contain anything
  if (name_end == std::string::npos || text->size() < name_end + 3) return 0;
  // A zombie's pid is still taken, but it serves nobody: waiting for its end would wait for a parent that never asks.
  const char state = (*text)[name_end + 2];
  if (state == 'Z' || state == 'X') return 0;
  size_t at = name_end + 2;
  for (int field = 3; field < 22; ++field) {
    at = text->find(' ', at);
    if (at == std::string::npos) return 0;
    ++at;
  }
  return std::strtoull(text->c_str() + at, nullptr, 10);
}

/// The last line of a file that has something on it, cut to kLastWordsBytes; empty when there is none.
std::string last_line(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  const std::streamoff size = file.tellg();
  if (size <= 0) return {};
  file.seekg(std::max<std::streamoff>(0, size - kTailBytes));
  std::string line, last;
  while (std::getline(file, line)) {
    if (!line.empty()) last = line.substr(0, kLastWordsBytes);
  }
  return last;
}

}  // namespace

Result<std::string> read_file(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return status_from_errno(errno, path);
  std::string contents;
  char buffer[65536];
  ssize_t got = 0;
  while (contents.size() < kMaxFileBytes && (got = ::read(fd, buffer, sizeof buffer)) > 0) {
    contents.append(buffer, static_cast<size_t>(got));
  }
  const int error = errno;
  ::close(fd);
  if (got < 0) return status_from_errno(error, path);
  return contents;
}

Status write_file(const std::string& path, const std::string& contents, mode_t mode) {
  const std::string temporary = path + ".new";
  const int fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
  if (fd < 0) return status_from_errno(errno, path);
  size_t done = 0;
  while (done < contents.size()) {
    const ssize_t put = ::write(fd, contents.data() + done, contents.size() - done);
    if (put <= 0) break;
    done += static_cast<size_t>(put);
  }
  const bool written = done == contents.size();
  if (!written || ::close(fd) != 0 || ::rename(temporary.c_str(), path.c_str()) != 0) {
    const int error = errno;
    if (!written) ::close(fd);
    return status_from_errno(error, path);
  }
  return {};
}

pid_t LocalDaemon::pid() const {
  auto text = read_file(pid_file);
  if (!text) return 0;
  pid_t pid = 0;
  unsigned long long started = 0;
  if (std::sscanf(text->c_str(), "%d %llu", &pid, &started) != 2 || pid <= 0) return 0;
  return start_time(pid) == started && started != 0 ? pid : 0;
}

Result<DirectoryLock> DirectoryLock::take(const std::string& directory) {
  const int fd = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return status_from_errno(errno, directory);
  DirectoryLock lock(fd);
  if (::flock(fd, LOCK_EX | LOCK_NB) == 0) return lock;
  if (errno != EWOULDBLOCK) return status_from_errno(errno, "lock " + directory);
  return Status{Code::kConflict,
                fmt::format("another start or stop of the cluster in {} is under way", directory)};
}

DirectoryLock::~DirectoryLock() {
  if (fd_ >= 0) ::close(fd_);
}

Status LocalDaemon::start() const {
  const int out = ::open(output.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (out < 0) return status_from_errno(errno, output);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, out, STDERR_FILENO);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  // A session of its own keeps the terminal's signals away. It inherits none of this process's dispositions, except
  // that a closed pipe is no reason to die.
  sigset_t defaults;
  sigfillset(&defaults);
  sigdelset(&defaults, SIGPIPE);
  posix_spawnattr_setsigdefault(&attributes, &defaults);
  // No signal is blocked: a daemon that inherits a blocked SIGTERM could not be stopped.
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
  std::vector<std::string> words{binary, "--config", config};
  std::vector<char*> arguments;
  for (std::string& word : words)
    arguments.push_back(word.data());
  arguments.push_back(nullptr);
  pid_t child = 0;
  const int error = ::posix_spawn(&child, binary.c_str(), &actions, &attributes, arguments.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  ::close(out);
  if (error != 0) return status_from_errno(error, fmt::format("start {}", binary));
  return write_file(pid_file, fmt::format("{} {}\n", child, start_time(child)));
}

Status LocalDaemon::stop(std::chrono::milliseconds patience) const {
  using Clock = std::chrono::steady_clock;
  static constexpr auto kPoll = std::chrono::milliseconds(20);
  constexpr auto kAfterKill = std::chrono::seconds(5);
  const auto wait = [this](std::chrono::milliseconds limit) {
    for (const auto end = Clock::now() + limit; Clock::now() < end; std::this_thread::sleep_for(kPoll)) {
      if (pid() == 0) return true;
    }
    return pid() == 0;
  };
  if (const pid_t running = pid(); running != 0) {
    if (::kill(running, SIGTERM) != 0 && errno != ESRCH) return status_from_errno(errno, "stop " + name);
    if (!wait(patience)) {
      ::kill(running, SIGKILL);
      if (!wait(kAfterKill))
        return {Code::kDeadlineExceeded, fmt::format("{} (pid {}) does not end", name, running)};
    }
  }
  if (::unlink(pid_file.c_str()) != 0 && errno != ENOENT) return status_from_errno(errno, pid_file);
  return {};
}

std::string LocalDaemon::last_words() const {
  std::error_code error;
  fs::file_time_type newest = fs::file_time_type::min();
  std::string words = "it left no message";
  for (const std::string& path : {output, log}) {
    const auto written = fs::last_write_time(path, error);
    if (error || written < newest) continue;
    const std::string line = last_line(path);
    if (line.empty()) continue;
    newest = written;
    words = line;
  }
  return words;
}

}  // namespace kintsugi::cli
