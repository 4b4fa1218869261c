#include "client/mount/kernel/supervisor.h"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/mount/kernel/child_seat.h"
#include "client/mount/kernel/mount_point.h"
#include "client/mount/kernel/notifier.h"
#include "client/mount/kernel/shared_state.h"
#include "client/mount/kernel/tell_systemd.h"
#include "client/mount/kernel/terminal.h"

namespace kintsugi::mount {

namespace {

constexpr int64_t kQuickDeathMs = 1000;
constexpr int64_t kLongestPauseMs = 5000;
// After a fork that failed.
constexpr int64_t kForkPauseMs = 1000;
constexpr int64_t kOpenFilesMs = 30'000;

// The supervisor runs on the machine itself, never in the simulator, so it may read its clock.
int64_t now_ms() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000;
}

// One line, without allocation; what the child logs is its own business.
template <class... Args>
void say(const char* format, Args... args) {
  char line[512];
  if (std::snprintf(line, sizeof line, format, args...) > 0) complain(line);
}

void close_if_open(int& descriptor) {
  if (descriptor >= 0) ::close(descriptor);
  descriptor = -1;
}

sigset_t handled_signals() {
  sigset_t set;
  ::sigemptyset(&set);
  for (const int signal : {SIGCHLD, SIGTERM, SIGINT, SIGHUP})
    ::sigaddset(&set, signal);
  return set;
}

void restore_signals() {
  const sigset_t set = handled_signals();
  ::sigprocmask(SIG_UNBLOCK, &set, nullptr);
  ::signal(SIGPIPE, SIG_DFL);
}

}  // namespace

Supervisor::Supervisor(SupervisorOptions options) : options_(std::move(options)) {}

Supervisor::~Supervisor() {
  for (int* descriptor :
       {&options_.device, &options_.tell_ready, &binary_, &former_binary_, &state_, &signals_, &control_})
    close_if_open(*descriptor);
}

Status Supervisor::set_up() {
  char path[4096];
  const ssize_t bytes = ::readlink("/proc/self/exe", path, sizeof path);
  if (bytes <= 0) return status_from_errno(errno, "find our own binary");
  binary_path_.assign(path, static_cast<size_t>(bytes));
  // Kept open, so that the same binary is started again although a package manager replaced or removed the file.
  binary_ = ::open("/proc/self/exe", O_PATH | O_CLOEXEC);
  if (binary_ < 0) return status_from_errno(errno, "open our own binary");
  KINTSUGI_ASSIGN(state_, SharedState::create(options_.state_bytes));
  mounted_as_ = mounted_device(options_.directory).value_or("");
  const sigset_t set = handled_signals();
  ::sigprocmask(SIG_BLOCK, &set, nullptr);
  ::signal(SIGPIPE, SIG_IGN);
  signals_ = ::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  if (signals_ < 0) return status_from_errno(errno, "signalfd");
  // All that a child needs at its start is made here: nothing is allocated between fork and exec.
  for (std::string& argument : options_.arguments)
    argv_.push_back(argument.data());
  argv_.push_back(nullptr);
  for (char** variable = environ; *variable != nullptr; ++variable)
    if (std::strncmp(*variable, kSeatVariable, std::strlen(kSeatVariable)) != 0)
      environment_.push_back(*variable);
  descriptors_.resize(kDescriptorsBytes);
  environment_.push_back(descriptors_.data());
  environment_.push_back(nullptr);
  return {};
}

int Supervisor::run() {
  if (const Status status = set_up(); !status.ok()) {
    say("kintsugi-mount: %s\n", status.to_string().c_str());
    if (options_.unmounts) (void)unmount(options_.directory, true);
    return 1;
  }
  while (true) {
    if (child_ == 0) {
      if (gone() || failed_ || ending_) break;
      if (now_ms() >= start_at_ms_ && !start_child()) start_at_ms_ = now_ms() + kForkPauseMs;
    }
    // The device is not among them: it would wake us for each request. A child whose file system is gone ends by
    // itself.
    pollfd watched[] = {{signals_, POLLIN, 0}, {control_, POLLIN, 0}};
    if (::poll(watched, 2, poll_timeout_ms()) < 0 && errno != EINTR) return 1;
    if (watched[1].revents != 0) on_control();
    if (watched[0].revents != 0) on_signals();
    if (end_at_ms_ != 0 && now_ms() >= end_at_ms_) end_child();
  }
  tell_systemd("STOPPING=1\n");
  if (ending_) unmounting_ = false;  // a failed attempt is repeated once
  if (failed_ || left_behind()) start_unmount();
  return failed_ ? (first_status_ == 0 ? 1 : first_status_) : 0;
}

int Supervisor::poll_timeout_ms() const {
  int64_t at = INT64_MAX;
  if (child_ == 0) at = start_at_ms_;
  if (end_at_ms_ != 0) at = std::min(at, end_at_ms_);
  return at == INT64_MAX ? -1 : static_cast<int>(std::max<int64_t>(at - now_ms(), 0));
}

// With the last descriptor of the device, which is ours, the kernel ends what still uses the mount.
void Supervisor::end_child() {
  end_at_ms_ = 0;
  ending_ = true;
  say("kintsugi-mount: files below %s are still open: the mount ends all the same, and they fail from now "
      "on\n",
      options_.directory.c_str());
  ask_child(kOrderEnd);
}

/// After `umount -f` or an abort the directory may still be the dead mount. Another mount may be there by now, too:
/// that one has another device, or answers.
bool Supervisor::left_behind() const {
  if (mounted_device(options_.directory) != mounted_as_) return false;
  if (aborted_ || ending_) return true;
  struct statvfs found{};  // statvfs() is never answered from a cache
  return (::statvfs(options_.directory.c_str(), &found) != 0 && (errno == ENOTCONN || errno == ECONNABORTED));
}

bool Supervisor::gone() const {
  pollfd device{options_.device, 0, 0};
  return ::poll(&device, 1, 0) > 0 && (device.revents & (POLLERR | POLLHUP | POLLNVAL)) != 0;
}

bool Supervisor::start_child() {
  int control[2], notifier[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, control) != 0) return false;
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, notifier) != 0) {
    ::close(control[0]);
    ::close(control[1]);
    return false;
  }
  if (hand_over_) {
    hand_over_ = false;
    const int next = ::open(binary_path_.c_str(), O_PATH | O_CLOEXEC);
    if (next >= 0) {
      close_if_open(former_binary_);
      former_binary_ = std::exchange(binary_, next);
    } else {
      say("kintsugi-mount: %s: %s: the former binary continues\n", binary_path_.c_str(),
          std::strerror(errno));
    }
  }
  started_ms_ = now_ms();
  child_ready_ = false;
  const pid_t child = ::fork();
  if (child == 0) exec_child(binary_, control[1], notifier[1]);
  ::close(control[1]);
  ::close(notifier[1]);
  close_if_open(control_);
  control_ = control[0];
  // It outlives the child only while the kernel holds it, and is nobody's to wait for: SIGCHLD reaps it.
  const bool has_notifier = child > 0 && start_notifier(notifier[0]) > 0;
  ::close(notifier[0]);
  if (child > 0 && !has_notifier) ::kill(child, SIGKILL);  // it would end by itself without one
  if (child < 0 || !has_notifier) return false;
  child_ = child;
  return true;
}

pid_t Supervisor::start_notifier(int socket) {
  const pid_t pid = ::fork();
  if (pid != 0) return pid;
  ::prctl(PR_SET_NAME, "kintsugi-notify");
  ::setpgid(0, 0);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP})
    ::signal(signal, SIG_IGN);
  for (int* other : {&control_, &signals_, &state_, &binary_, &former_binary_, &options_.tell_ready})
    close_if_open(*other);
  leave_terminal();
  write_notifications(socket, options_.device);
  ::_exit(0);
}

void Supervisor::exec_child(int binary, int control, int notifier) {
  // A group of its own: the terminal's Ctrl-C is for the parent.
  ::setpgid(0, 0);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP})
    ::signal(signal, SIG_IGN);
  restore_signals();
  for (const int descriptor : {options_.device, state_, control, notifier})
    ::fcntl(descriptor, F_SETFD, 0);
  std::snprintf(descriptors_.data(), kDescriptorsBytes, "%s=%d,%d,%d,%d", kSeatVariable, options_.device,
                state_, control, notifier);
  ::syscall(SYS_execveat, binary, "", argv_.data(), environment_.data(), AT_EMPTY_PATH);
  say("kintsugi-mount: cannot start %s: %s\n", binary_path_.c_str(), std::strerror(errno));
  ::_exit(127);
}

void Supervisor::on_control() {
  char what = 0;
  const ssize_t got = ::recv(control_, &what, 1, MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  // The end: the child is about to die, which SIGCHLD tells.
  if (got <= 0) return close_if_open(control_);
  if (what == kSayReady) became_ready();
  if (what == kSayFlushed && stopping_) start_unmount();
}

void Supervisor::became_ready() {
  child_ready_ = true;
  close_if_open(former_binary_);
  if (!std::exchange(ever_ready_, true)) {
    tell_systemd("READY=1\n");
    if (options_.tell_ready >= 0) {
      (void)!::write(options_.tell_ready, "R", 1);
      close_if_open(options_.tell_ready);
      leave_terminal();
      log_to_syslog();
    }
  }
  if (stopping_ && !unmounting_) ask_child(kOrderFlush);
}

void Supervisor::on_signals() {
  signalfd_siginfo info;
  while (::read(signals_, &info, sizeof info) == sizeof info) {
    switch (info.ssi_signo) {
      case SIGCHLD: reap(); break;
      case SIGTERM:
      case SIGINT:
        if (ending_) {
          if (child_ > 0) ::kill(child_, SIGKILL);
        } else if (std::exchange(stopping_, true) || !child_ready_) {
          if (unmounting_) end_at_ms_ = now_ms();
          start_unmount();
        } else {
          tell_systemd("STOPPING=1\n");
          ask_child(kOrderFlush);
        }
        break;
      case SIGHUP:
        hand_over_ = true;
        ask_child(kOrderHandOver);
        break;
      default: break;
    }
  }
}

void Supervisor::ask_child(char order) {
  if (control_ >= 0) (void)!::send(control_, &order, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}

void Supervisor::start_unmount() {
  if (std::exchange(unmounting_, true)) return;
  end_at_ms_ = now_ms() + kOpenFilesMs;
  if (!options_.unmounts) return;
  // In a process of its own: the kernel may need answers from the child before it has unmounted, and the child may
  // need us.
  const pid_t helper = ::fork();
  if (helper != 0) return;
  restore_signals();
  const Status status = unmount(options_.directory, true);
  if (!status.ok()) say("kintsugi-mount: %s\n", status.to_string().c_str());
  ::_exit(status.ok() ? 0 : 1);
}

void Supervisor::reap() {
  int status = 0;
  for (pid_t pid; (pid = ::waitpid(-1, &status, WNOHANG)) > 0;)
    if (pid == child_) on_child_ended(status);
}

void Supervisor::on_child_ended(int status) {
  child_ = 0;
  close_if_open(control_);
  aborted_ = WIFEXITED(status) && WEXITSTATUS(status) == kExitAborted;
  const int64_t lived_ms = now_ms() - started_ms_;
  const bool asked = hand_over_ && child_ready_;
  if (!ever_ready_) {
    failed_ = true;
    first_status_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return;
  }
  if (!child_ready_ && former_binary_ >= 0) {
    say("kintsugi-mount: the new %s ended before it was ready: the former one continues\n",
        binary_path_.c_str());
    ::close(std::exchange(binary_, std::exchange(former_binary_, -1)));
  }
  quick_deaths_ = lived_ms < kQuickDeathMs && !asked ? quick_deaths_ + 1 : 0;
  int64_t pause_ms = 0;
  if (quick_deaths_ > 1)
    pause_ms = std::min(int64_t{50} << std::min(quick_deaths_ - 2, 16u), kLongestPauseMs);
  start_at_ms_ = now_ms() + pause_ms;
  if (asked || gone()) return;
  if (WIFSIGNALED(status)) {
    say("kintsugi-mount: the process that serves %s was killed by signal %d, the next one takes over\n",
        options_.directory.c_str(), WTERMSIG(status));
  } else {
    say("kintsugi-mount: the process that serves %s ended with status %d, the next one takes over\n",
        options_.directory.c_str(), WEXITSTATUS(status));
  }
}

}  // namespace kintsugi::mount
