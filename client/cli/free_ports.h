/// Ports of this machine that a local cluster's daemons can listen on.
#pragma once

#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "client/cli/known_clusters.h"
#include "common/base/status.h"

namespace kintsugi::cli {

/// Loopback ports that nobody listens on and no other cluster of this user has, below the range that the kernel hands to
/// outgoing connections, so that they are likely still free when the cluster starts again.
///
/// A port is free until its daemon listens, and whenever that is down. What keeps other clusters away from it then is the
/// description of the cluster that it was chosen for (KnownClusters). REQUIRES: that is written while this object lives;
/// others who choose ports wait for its end.
class FreePorts {
 public:
  /// For the cluster in `directory`. Never gives an address in `taken`, which are the cluster's own: its daemon may be
  /// down just now. Errors: those of KnownClusters::open().
  static Result<FreePorts> open(const std::string& directory, std::set<std::string> taken);
  FreePorts(FreePorts&& other) noexcept = default;
  ~FreePorts();

  /// The address ("127.0.0.1:20123") of a port, which is held until this object dies, so that no two are the same.
  /// kLimitExceeded when none is found.
  Result<std::string> next();

 private:
  FreePorts(KnownClusters others, std::set<std::string> taken)
      : others_(std::move(others)), taken_(std::move(taken)) {}

  KnownClusters others_;
  std::set<std::string> taken_;
  std::vector<int> held_;  ///< sockets bound to the ports that were given out
  std::mt19937 random_{std::random_device{}()};
};

}  // namespace kintsugi::cli
