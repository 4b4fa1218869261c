/// A whole cluster on this machine, in one directory:
///
///   cluster.json   what it consists of: addresses, racks, settings it was made with
///   env            shell file to source
///   secret         the cluster secret
///   etc/ log/ run/ one TOML, log and pid file for each daemon
///   data/          meta, chunkserver-1, ...
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "client/cli/local_daemon.h"
#include "common/base/status.h"

namespace kintsugi::cli {

struct LocalClusterOptions {
  int chunkservers = 10;
  int racks = 0;                     ///< 0: no racks
  std::string policy;                ///< empty: the metaserver's default
  double repair_delay_seconds = -1;  ///< negative: the metaserver's default
  uint64_t chunk_bytes = 0;          ///< 0: the metaserver's default
  int repair_managers = 0;           ///< daemons of their own; 0: the metaserver repairs
};

class LocalCluster {
 public:
  static constexpr int kMaxChunkservers = 200;
  static constexpr int kMaxRepairManagers = 16;

  /// kNotFound when there is no cluster in `directory`.
  static Result<LocalCluster> load(const std::string& directory);
  /// Makes directory, secret, configs and env. The addresses are free right now.
  static Result<LocalCluster> create(const std::string& directory, const LocalClusterOptions& options);
  /// More chunkservers, and more repair managers, for one that exists.
  Status grow(int chunkservers);
  Status grow_repair_managers(int count);

  const std::string& directory() const { return directory_; }
  std::string metaserver_address() const { return metaserver_; }
  std::string secret_file() const { return directory_ + "/secret"; }
  std::string env_file() const { return directory_ + "/env"; }
  const LocalClusterOptions& options() const { return options_; }
  /// By number, from 1.
  std::vector<std::string> chunkserver_addresses() const;
  /// The metaserver first, the repair managers last.
  std::vector<LocalDaemon> daemons() const;

 private:
  struct Chunkserver {
    std::string listen, http, rack;
  };

  Status add_chunkservers(int count);
  Status save() const;
  Status write_metaserver_config() const;
  Status write_chunkserver_config(size_t number) const;
  Status write_repair_manager_configs() const;
  LocalDaemon daemon(const std::string& name, const std::string& program) const;

  std::string directory_;  // absolute
  LocalClusterOptions options_;
  std::string metaserver_, metaserver_http_;
  std::vector<Chunkserver> chunkservers_;
};

}  // namespace kintsugi::cli
