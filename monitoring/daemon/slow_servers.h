/// What the metaserver is told of verdicts: the servers that others had better go around.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "common/proto/sight.pb.h"
#include "monitoring/model/snapshot.h"

namespace kintsugi::monitoring {

/// The chunkserver that a verdict of a slow disk, or of slow links from most others, is about. None: it is about something else. That holds
/// for a single slow link, too: which of its two ends is to be gone around nobody knows.
std::optional<proto::SlowServer> slow_server(const proto::Verdict& verdict,
                                             std::span<const model::ServerLife> servers);

/// Those of all verdicts, the slowest first.
std::vector<proto::SlowServer> slow_servers(std::span<const proto::Verdict> verdicts,
                                            std::span<const model::ServerLife> servers);

}  // namespace kintsugi::monitoring
