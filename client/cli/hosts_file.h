/// The description of the hosts of a cluster, from which `kintsugi cluster init` makes their keys and settings.
///
/// ```toml
/// policy = "rs-6-3-1024k"     # of new files below /
///
/// [hosts.meta-1]
/// address = "10.0.0.1"
/// roles = ["metaserver"]      # and, unless others have them, the repair manager and the monitor
///
/// [hosts.store-1]
/// address = "10.0.0.11"
/// names = ["store-1.example.org"]     # also reached by these
/// rack = "rack-a"
/// disks = ["/srv/kintsugi/disk-1"]    # a host with disks is a chunkserver
///
/// [hosts.desk-1]              # a client
/// address = "10.0.0.50"
/// ```
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"

namespace kintsugi::cli {

enum class HostRole { kMetaserver, kRepairManager, kMonitor, kChunkserver, kClient };

struct HostDescription {
  std::string name, address, rack;
  std::vector<std::string> names, disks;
  std::set<HostRole> roles;

  /// It has daemons. Another one only uses the cluster: it gets no secret, and its certificate is a client's.
  bool serves() const { return roles.size() > (roles.contains(HostRole::kClient) ? 1 : 0); }
};

/// kInvalidArgument: no host may be called so. What a host is called is the name of its directory, too.
Status check_host_name(std::string_view name);

struct HostsFile {
  static constexpr size_t kMostHosts = 1'000;

  std::string cluster = "kintsugi";    ///< name of the authority that signs
  std::string policy;                  ///< empty: one that the chunkservers suffice for
  std::vector<HostDescription> hosts;  ///< in the order of the file; exactly one has the metaserver

  /// kInvalidArgument with the file and the line, and with the nearest right word when one is misspelt.
  static Result<HostsFile> read(const std::string& path);
  static Result<HostsFile> parse(std::string_view text, const std::string& name);

  /// The first host with this role. REQUIRES: one has it, as the metaserver, the repair manager and the monitor always.
  const HostDescription& with(HostRole role) const;
  size_t count(HostRole role) const;
};

}  // namespace kintsugi::cli
