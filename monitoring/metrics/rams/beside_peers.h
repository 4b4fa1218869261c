/// RAMS where a process has peers: does what the system does for it follow from its own work as before, and as it does at the
/// others of its role meanwhile? A load that all share moves all of them off their lines at once, and says nothing. Pure.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "monitoring/metrics/rams/channels.h"

namespace kintsugi::rams {

struct Parted {
  size_t process = 0;  ///< index in what was compared
  std::string channel;
  int64_t t_ns = 0;   ///< middle of the window in which it is farthest off
  double size = 0;    ///< how far, in deviations
  double excess = 0;  ///< how many times as rare as what healthy times show; above 1
};

/// Rows of a window.
inline constexpr size_t kPeerRows = 20;

struct BesidePeers {
  std::vector<Parted> parted;  ///< at most one for each process, by the channel that is rarest
  /// By process: a window of it was compared with those of at least orion::kFewestPeers others. Nothing is known of those that were
  /// not.
  std::vector<bool> compared;
};

/// `healthy` and `now` are of the same processes of one role in the same order, and have the same channels.
BesidePeers parted_from_peers(std::span<const Inputs> healthy, std::span<const Inputs> now);

}  // namespace kintsugi::rams
