/// The daemons of this host, as their files of settings say, and what would keep them from working.
#pragma once

#include <string>
#include <vector>

#include "client/cli/host_checks.h"

namespace kintsugi::cli {

struct HostDaemon {
  std::string name;  ///< name of its file: "chunkserver-1"
  std::string program;
  Result<DaemonSettings> settings;  ///< what the program says when it does not understand its file
};

/// Those whose files, NAME.toml, are in the directory, by name. On a host without daemons the mount counts as one, when
/// it is installed.
Result<std::vector<HostDaemon>> daemons_of_host(const std::string& directory);

/// What is so of this machine and of each daemon. `directory` is named where there is none.
std::vector<Finding> check_host(const std::vector<HostDaemon>& daemons, const std::string& directory);

/// "ok", "warning", "problem".
std::string_view word(Verdict verdict);

}  // namespace kintsugi::cli
