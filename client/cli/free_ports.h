/// Ports of this machine that a local cluster's daemons can listen on.
#pragma once

#include <random>
#include <set>
#include <string>
#include <vector>

#include "common/base/status.h"

namespace kintsugi::cli {

/// Loopback ports that nobody listens on, below the range that the kernel hands to outgoing connections, so that they
/// are likely still free when the cluster starts again.
class FreePorts {
 public:
  /// Never gives an address in `taken`: its daemon may be down just now.
  explicit FreePorts(std::set<std::string> taken) : taken_(std::move(taken)) {}
  FreePorts(const FreePorts&) = delete;
  ~FreePorts();

  /// The address ("127.0.0.1:20123") of a port, which is held until this object dies, so that no two are the same.
  /// kLimitExceeded when none is found.
  Result<std::string> next();

 private:
  std::set<std::string> taken_;
  std::vector<int> held_;  ///< sockets bound to the ports that were given out
  std::mt19937 random_{std::random_device{}()};
};

}  // namespace kintsugi::cli
