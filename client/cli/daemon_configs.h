/// The files of a local cluster that its daemons and shells read: etc/*.toml, and env.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "client/cli/cluster_description.h"
#include "client/cli/local_daemon.h"
#include "common/base/status.h"

namespace kintsugi::cli {

std::string chunkserver_name(size_t number);
std::string repair_manager_name(uint32_t number);
std::string secret_file(const std::string& cluster);
std::string env_file(const std::string& cluster);

class DaemonConfigs {
 public:
  /// `directory` is the cluster's. Both outlive it.
  DaemonConfigs(const std::string& directory, const ClusterDescription& cluster)
      : directory_(directory), cluster_(cluster) {}

  Status write_env() const;
  Status write_metaserver() const;
  Status write_chunkserver(size_t number) const;
  /// Files that exist stay as they are, because their owner may have changed them.
  Status write_repair_managers() const;
  Status write_monitor() const;

  /// Has the daemons share the machine with as many as there are now. Those that run do so from their next start on.
  Status share_memory(const std::vector<LocalDaemon>& daemons, size_t chunkservers_before) const;
  /// Has the daemons' files name the directory of the cluster, where they name the one that its description names.
  Status adopt_directory(const std::vector<LocalDaemon>& daemons) const;

 private:
  std::string memory_line(size_t chunkservers) const;

  const std::string& directory_;
  const ClusterDescription& cluster_;
};

}  // namespace kintsugi::cli
