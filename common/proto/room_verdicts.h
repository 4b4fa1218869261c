/// Verdicts on room: what the monitor, or the metaserver in its place, says while new data is refused for want of it.
#pragma once

#include <string>
#include <vector>

#include "common/proto/sight.pb.h"

namespace kintsugi::proto {

/// One of kind FULL for all servers (`server` is "cluster") and one for the metaserver; none where there is room.
std::vector<Verdict> no_room(const Room& servers, const Room& metadata);

/// What is missing, of a verdict of kind FULL: "0 B of 1.2 TiB free on all 9 servers", "12.0 MiB free, and it needs 128.0
/// MiB".
std::string missing_room(const Verdict& verdict);
/// The verdict is about the metaserver's own disk.
bool is_metadata_full(const Verdict& verdict);

}  // namespace kintsugi::proto
