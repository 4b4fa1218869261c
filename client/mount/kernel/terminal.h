/// The terminal or pipe that a mount was started from, which belongs to the caller again once the mount is ready.
#pragma once

#include "common/base/status.h"

namespace kintsugi::mount {

/// Standard input, output and error become /dev/null: whoever reads them at the other end sees their end.
void leave_terminal();

/// The lines of complain() and of the log go to syslog (identifier "kintsugi-mount") from now on.
void log_to_syslog();

/// One line to standard error, or to syslog after log_to_syslog(). `line` ends with a newline. Allocates nothing.
void complain(const char* line);

/// Splits the program in two before it has threads: the new process returns the descriptor for
/// SupervisorOptions::tell_ready, in a session of its own; the old one waits until the mount answers, and exits with 0
/// then, or else with the new process's exit status.
Result<int> detach();

}  // namespace kintsugi::mount
