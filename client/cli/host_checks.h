/// What would keep the daemons of this host from working, found without starting one.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "client/cli/daemon_settings.h"
#include "common/rpc/secret.h"
#include "common/runtime/tls/tls_network.h"

namespace kintsugi::cli {

/// Rights to chunks carry times, and certificates do.
inline constexpr double kMostClockDifference = 2;  ///< seconds
inline constexpr Duration kRenewBefore = std::chrono::hours(24 * 30);

enum class Verdict { kGood, kWarning, kProblem };

struct Finding {
  Verdict verdict;
  std::string on;    ///< what was looked at: "metaserver", "this host"
  std::string says;  ///< a sentence: what is so, and for what is not good, what to do
};

/// A daemon of this host, with its settings.
struct CheckedDaemon {
  std::string name;  ///< "chunkserver-1"
  std::string program;
  DaemonSettings settings;
};

/// The certificate of a daemon, and what belongs to it.
runtime::TlsFiles tls_files(const DaemonSettings& settings);

/// Returns what the daemon proves itself to others with: the token, when it is a mount whose settings name
/// one, else the cluster's secret.
Result<rpc::Secret> credential(const DaemonSettings& settings);

/// Kernel, memory, limits, and whether somebody keeps the clock right.
void check_machine(std::vector<Finding>& findings);
/// Who of this host listens where, by its settings.
using ListenAddresses = std::map<std::string, std::string>;
/// Addresses that it listens at: they are this host's, and free or its own. They are put into `taken`, and must not be those
/// of another daemon there.
void check_addresses(const CheckedDaemon& daemon, ListenAddresses& taken, std::vector<Finding>& findings);
/// Names of others resolve.
void check_names(const CheckedDaemon& daemon, std::vector<Finding>& findings);
/// Secret or token, and certificate, which is for the addresses that the daemon has.
void check_keys(const CheckedDaemon& daemon, std::vector<Finding>& findings);
/// Directories for chunks or metadata.
void check_disks(const CheckedDaemon& daemon, std::vector<Finding>& findings);
/// Asks the metaserver, which may not run yet, and compares clocks with it.
void check_metaserver(const CheckedDaemon& daemon, std::vector<Finding>& findings);

}  // namespace kintsugi::cli
