/// A whole cluster on this machine, in one directory:
///
/// ```
/// cluster.json    its daemons' addresses and racks, the settings it was made with, and where its files say that it is
/// env             shell file to source
/// secret          the cluster secret
/// etc/ log/ run/  one TOML, log and pid file for each daemon
/// data/           meta, chunkserver-1, ..., monitor
/// ```
///
/// The TOML files and `env` name the directory, so that a daemon can be started by hand from anywhere. Whoever moves
/// the directory has them changed by the next start.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "client/cli/cluster_description.h"
#include "client/cli/daemon_configs.h"
#include "client/cli/local_daemon.h"
#include "common/base/status.h"

namespace kintsugi::cli {

class FreePorts;

/// The cluster as its directory describes it; whether its daemons run is up to them.
class LocalCluster {
 public:
  static constexpr uint32_t kMaxChunkservers = 200;
  static constexpr uint32_t kMaxRepairManagers = 16;

  /// Reads the cluster in `directory`. kNotFound when there is none.
  static Result<LocalCluster> load(const std::string& directory);
  /// Makes directory, secret, configs and env. Nobody listens on the addresses right now, and no
  /// other cluster of this user has them.
  static Result<LocalCluster> create(const std::string& directory, const LocalClusterOptions& options);
  /// Adds chunkservers until there are so many. REQUIRES: at least as many as there are.
  Status grow(uint32_t chunkservers);
  /// Adds repair managers until there are `count`. REQUIRES: at least as many as there are.
  Status grow_repair_managers(uint32_t count);
  /// Adds a monitor when there is none, and its program is beside this one. Clusters made by earlier versions have
  /// none.
  Status grow_monitor();
  /// Takes growth back: daemons beyond as many as `before` says are stopped, as LocalDaemon::stop() does, and
  /// forgotten. Their data stays for the next growth.
  Status shrink(const LocalClusterOptions& before, std::chrono::milliseconds patience);

  /// Keeps the user's next clusters from the ports of this one, also when they were chosen by an earlier version, or it
  /// was elsewhere then. Errors: those of KnownClusters::open().
  Status remember() const;
  /// Has only the owner read what the cluster keeps: data, logs, settings and where its daemons are. Makes the
  /// directories for these that are not there.
  Status close_to_others() const;
  /// The directory that the cluster's files name, if it is another one than it is in.
  std::optional<std::string> moved_from() const;
  /// Has the daemons' files and `env` name the directory that the cluster is in. REQUIRES: no daemon runs.
  Status adopt_directory();

  const std::string& directory() const { return directory_; }
  std::string metaserver_address() const { return description_.metaserver; }
  std::string secret_file() const { return cli::secret_file(directory_); }
  std::string env_file() const { return cli::env_file(directory_); }
  const LocalClusterOptions& options() const { return description_.options; }
  /// Addresses of the chunkservers 1, 2, ... in this order.
  std::vector<std::string> chunkserver_addresses() const;
  /// Where the monitor's console is, "127.0.0.1:20123"; empty when the cluster has no monitor.
  std::string monitor_http() const { return description_.monitor_http; }
  /// All daemons: the metaserver first, then the chunkservers, the repair managers, and the monitor last.
  std::vector<LocalDaemon> daemons() const;

 private:
  explicit LocalCluster(const std::string& directory);

  Status add_chunkservers(uint32_t count, FreePorts& ports);
  Status add_monitor(FreePorts& ports);
  Status save() const { return description_.write(directory_); }
  DaemonConfigs configs() const { return {directory_, description_}; }
  LocalDaemon daemon(const std::string& name, const std::string& program) const;

  std::string directory_;  ///< absolute path
  ClusterDescription description_;
};

}  // namespace kintsugi::cli
