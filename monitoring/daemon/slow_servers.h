/// What the metaserver is told of verdicts: the servers that others had better avoid.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "common/proto/sight.pb.h"
#include "monitoring/model/snapshot.h"

namespace kintsugi::monitoring {

/// The chunkserver that a verdict is about, when that says that a disk of it is slow, or that most of those who call
/// it find it slow (SLOW, with `servers_waiting`), or that it stands still again and again. None: the verdict is about something else. That holds for a single
/// slow link, too: which of its two ends is to be avoided nobody knows.
std::optional<proto::SlowServer> slow_server(const proto::Verdict& verdict,
                                             std::span<const model::ServerLife> servers);

/// The slow servers of all verdicts, the slowest first.
std::vector<proto::SlowServer> slow_servers(std::span<const proto::Verdict> verdicts,
                                            std::span<const model::ServerLife> servers);

}  // namespace kintsugi::monitoring
