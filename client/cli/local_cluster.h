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
/// The TOML files and `env` name the directory, so that a daemon can be started by hand from anywhere. Whoever moves the
/// directory has them changed by the next start.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "client/cli/local_daemon.h"
#include "common/base/status.h"

namespace kintsugi::cli {

struct LocalClusterOptions {
  uint32_t chunkservers = 10;
  uint32_t racks = 0;                ///< 0: no racks
  std::string policy;                ///< empty: the metaserver's default
  double repair_delay_seconds = -1;  ///< negative: the metaserver's default
  uint64_t chunk_bytes = 0;          ///< 0: the metaserver's default
  uint32_t repair_managers = 0;      ///< daemons that repair; 0: the metaserver does
};

/// The cluster as its directory describes it; whether its daemons run is up to them.
class LocalCluster {
 public:
  static constexpr uint32_t kMaxChunkservers = 200;
  static constexpr uint32_t kMaxRepairManagers = 16;

  /// Reads the cluster in `directory`. kNotFound when there is none.
  static Result<LocalCluster> load(const std::string& directory);
  /// Makes directory, secret, configs and env. Nobody listens on the addresses right now.
  static Result<LocalCluster> create(const std::string& directory, const LocalClusterOptions& options);
  /// Adds chunkservers until there are so many. REQUIRES: at least as many as there are.
  Status grow(uint32_t chunkservers);
  /// Adds repair managers until there are `count`. REQUIRES: at least as many as there are.
  Status grow_repair_managers(uint32_t count);
  /// Adds a monitor when there is none, and its program is beside this one. Clusters made by earlier versions have none.
  Status grow_monitor();
  /// Takes growth back: daemons beyond as many as `before` says are stopped, as LocalDaemon::stop() does, and forgotten. Their
  /// data stays for the next growth.
  Status shrink(const LocalClusterOptions& before, std::chrono::milliseconds patience);

  /// Has only the owner read what the cluster keeps: data, logs, settings and where its daemons are. Makes the directories for
  /// these that are not there.
  Status close_to_others() const;
  /// The directory that the cluster's files name, if it is another one than it is in.
  std::optional<std::string> moved_from() const;
  /// Has the daemons' files and `env` name the directory that the cluster is in. REQUIRES: no daemon runs.
  Status adopt_directory();

  const std::string& directory() const { return directory_; }
  std::string metaserver_address() const { return metaserver_; }
  std::string secret_file() const { return directory_ + "/secret"; }
  std::string env_file() const { return directory_ + "/env"; }
  const LocalClusterOptions& options() const { return options_; }
  /// Addresses of the chunkservers 1, 2, ... in this order.
  std::vector<std::string> chunkserver_addresses() const;
  /// Where the monitor's console is, "127.0.0.1:20123"; empty when the cluster has no monitor.
  std::string monitor_http() const { return monitor_http_; }
  /// All daemons: the metaserver first, then the chunkservers, the repair managers, and the monitor last.
  std::vector<LocalDaemon> daemons() const;

 private:
  explicit LocalCluster(const std::string& directory);

  struct Chunkserver {
    std::string listen, http, rack;
  };

  Status add_chunkservers(uint32_t count);
  Status save() const;
  Status write_env() const;
  Status write_metaserver_config() const;
  Status write_chunkserver_config(size_t number) const;
  Status write_repair_manager_configs() const;
  std::string memory_line(size_t chunkservers) const;
  Status share_memory(size_t chunkservers_before) const;
  Status write_monitor_config() const;
  LocalDaemon daemon(const std::string& name, const std::string& program) const;

  std::string directory_;        ///< absolute
  std::string named_directory_;  ///< what its files say
  LocalClusterOptions options_;
  std::string metaserver_, metaserver_http_;
  std::string monitor_, monitor_http_;  ///< empty: it has none
  std::vector<Chunkserver> chunkservers_;
};

}  // namespace kintsugi::cli
