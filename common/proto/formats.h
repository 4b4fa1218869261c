/// The formats of what a cluster stores and says. Each is a number, and a cluster has one of them: it is in its metadata
/// (StoredCluster), daemons learn it when they register, and chunkservers keep it beside their chunks.
///
/// A program knows two: the newest, and the one before, so that the version before can be brought back. What only the
/// newest format has is written once `kintsugi cluster finalize` has made it the cluster's (decision 061).
///
/// ```
/// 3  stripes may keep their bytes in their records
/// 4  tokens; chunkservers keep the format on their disks
/// ```
#pragma once

#include <cstdint>

#include "common/base/status.h"

namespace kintsugi::proto {

inline constexpr uint32_t kNewestFormat = 4;  ///< format of a cluster that this program makes
inline constexpr uint32_t kOldestFormat = 3;
static_assert(kOldestFormat + 1 == kNewestFormat, "one step back");
/// Format known to programs, and of disks, that do not say which. It never changes.
inline constexpr uint32_t kUnsaidFormat = 3;
inline constexpr uint32_t kTokensFormat = 4;  ///< the first that has tokens

/// Whether this program may work on `what`, which has this format. kNotSupported: one clear line with what to do.
Status check_format(uint32_t format, std::string_view what);

/// Returns the newest format that a peer's program knows; `said` is 0 when the program is from before programs said so.
inline uint32_t newest_format_of(uint32_t said) {
  return said == 0 ? kUnsaidFormat : said;
}
/// Whether a daemon that says that it knows `said` may join a cluster of this format. kNotSupported: likewise.
Status check_daemon_format(uint32_t said, uint32_t cluster);
/// Whether `daemon`, which says that it knows `said`, knows the format that the cluster is to get. kConflict: likewise.
Status check_daemon_knows(uint32_t said, uint32_t wanted, std::string_view daemon);

}  // namespace kintsugi::proto
