/// What a local cluster knows of itself, and keeps in its file cluster.json.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "common/base/status.h"

namespace kintsugi::cli {

struct LocalClusterOptions {
  uint32_t chunkservers = 10;
  uint32_t racks = 0;                ///< 0: no racks
  std::string policy;                ///< empty: the metaserver's default
  double repair_delay_seconds = -1;  ///< negative: the metaserver's default
  uint64_t chunk_bytes = 0;          ///< 0: the metaserver's default
  uint32_t repair_managers = 1;  ///< 0: a cluster of an earlier version, in which the metaserver did repairs
};

struct ClusterDescription {
  struct Chunkserver {
    std::string listen, http, rack;
  };

  std::string directory;  ///< directory of the cluster, as its files name it
  LocalClusterOptions options;
  std::string metaserver, metaserver_http;
  std::string monitor, monitor_http;  ///< empty: the cluster has no monitor
  std::vector<Chunkserver> chunkservers;

  /// Reads the file in the directory of the cluster. kNotFound when there is none.
  static Result<ClusterDescription> read(const std::string& cluster);
  Status write(const std::string& cluster) const;

  /// All addresses that are given out.
  std::set<std::string> addresses() const;
};

/// Where the file is, by the directory of the cluster.
std::string description_file(const std::string& cluster);

}  // namespace kintsugi::cli
