/// The audit log: one line for each request that administers the cluster, in a file of its own.
#pragma once

#include <string>
#include <string_view>

namespace kintsugi::log {

/// Where the audit log goes that belongs to a log file: "/var/log/d.log" has "/var/log/d.audit.log".
std::string audit_path(const std::string& log_file);

/// Lines are appended to the file from now on, by a thread of the log, and rotated like the log. reopen_file() opens it
/// anew, too. Without a file they go to the log.
void set_audit_file(const std::string& path);

/// Any thread may call. Control characters in the line are escaped: a line break in what a peer says begins no new line.
void audit(std::string_view line);

}  // namespace kintsugi::log
