/// The terminal or pipe that a mount was started from, which belongs to the caller again once the mount is ready.
#pragma once

namespace kintsugi::mount {

/// Standard input, output and error become /dev/null: whoever reads them at the other end sees their end.
void leave_terminal();

/// The lines of complain() and of the log go to syslog (identifier "kintsugi-mount") from now on.
void log_to_syslog();

/// One line to standard error, or to syslog after log_to_syslog(). `line` ends with a newline. Allocates nothing.
void complain(const char* line);

}  // namespace kintsugi::mount
