#include "client/mount/kernel/terminal.h"

#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/wait.h>
#include <syslog.h>
#include <unistd.h>

#include "common/log/log.h"

namespace kintsugi::mount {

namespace {

constexpr const char* kIdentifier = "kintsugi-mount";

bool to_syslog = false;

int priority_of(log::Level level) {
  switch (level) {
    case log::Level::kDebug: return LOG_DEBUG;
    case log::Level::kInfo: return LOG_INFO;
    case log::Level::kWarning: return LOG_WARNING;
    case log::Level::kError: return LOG_ERR;
  }
  return LOG_ERR;
}

}  // namespace

void leave_terminal() {
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  if (null < 0) return;
  for (const int standard : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    ::dup2(null, standard);
  if (null > STDERR_FILENO) ::close(null);
}

void log_to_syslog() {
  ::openlog(kIdentifier, LOG_PID | LOG_NDELAY, LOG_DAEMON);
  to_syslog = true;
  log::set_sink([](log::Level level, std::string_view line) {
    ::syslog(priority_of(level), "%.*s", static_cast<int>(line.size()), line.data());
  });
}

void complain(const char* line) {
  if (to_syslog) return ::syslog(LOG_ERR, "%s", line);
  (void)!::write(STDERR_FILENO, line, std::strlen(line));
}

Result<int> detach() {
  int pipe[2];
  if (::pipe2(pipe, O_CLOEXEC) != 0) return status_from_errno(errno, "pipe");
  const pid_t child = ::fork();
  if (child < 0) return status_from_errno(errno, "fork");
  if (child == 0) {
    ::close(pipe[0]);
    ::setsid();
    return pipe[1];
  }
  ::close(pipe[1]);
  char byte = 0;
  ssize_t got;
  do
    got = ::read(pipe[0], &byte, 1);
  while (got < 0 && errno == EINTR);
  if (got == 1) ::_exit(0);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  ::_exit(WIFEXITED(status) && WEXITSTATUS(status) != 0 ? WEXITSTATUS(status) : 1);
}

}  // namespace kintsugi::mount
