/// The local clusters that a user has on this machine, so that no two of them get the same port.
#pragma once

#include <chrono>
#include <set>
#include <string>

#include "common/base/status.h"

namespace kintsugi::cli {

/// The list of the clusters' directories, `$XDG_STATE_HOME/kintsugi/clusters` (`~/.local/state/kintsugi/clusters`), held
/// for this process while the object lives: others who open it wait. A cluster is on it from before it has a port until
/// its directory is removed.
///
/// Where the list cannot be kept (no home, one that is read only or full, a list that root wrote under sudo) nothing is
/// known of other clusters, and nobody waits: a cluster that may once meet another's port is better than none.
class KnownClusters {
 public:
  /// Adds `directory`, an absolute path, and drops those in which there is no cluster any more. kDeadlineExceeded when
  /// somebody else holds the list for longer than `patience`.
  static Result<KnownClusters> open(const std::string& directory,
                                    std::chrono::milliseconds patience = std::chrono::seconds(10));
  KnownClusters(KnownClusters&& other) noexcept;
  ~KnownClusters();

  /// The addresses of all daemons of the other clusters, whether they run or not.
  const std::set<std::string>& addresses() const { return addresses_; }

 private:
  explicit KnownClusters(int lock) : lock_(lock) {}
  Status add(const std::string& directory, const std::string& file);

  int lock_;  ///< descriptor of the locked file; -1: there is none
  std::set<std::string> addresses_;
};

}  // namespace kintsugi::cli
