#include "client/mount/kernel/terminal.h"

#include <cstring>
#include <string>

#include <fcntl.h>
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

}  // namespace kintsugi::mount
