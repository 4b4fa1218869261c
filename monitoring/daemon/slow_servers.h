/// What the metaserver learns of verdicts: the servers that others should avoid.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "common/proto/sight.pb.h"
#include "monitoring/model/snapshot.h"

namespace kintsugi::monitoring {

/// The chunkserver that a verdict is about, when others should avoid it: a disk of it is slow, hangs or stops
/// responding again and again; the server itself does so; most of its callers find it slow (SLOW, with
/// `servers_waiting`); or it answers errors, loses packets, or cannot be reached. Its factor is 0 when it does not work
/// at all. None: the verdict is about something else. That holds for a single slow link, too: which of its two ends is
/// to be avoided nobody knows.
std::optional<proto::SlowServer> slow_server(const proto::Verdict& verdict,
                                             std::span<const model::ServerLife> servers);

/// The servers of all verdicts that are to be avoided, the worst first.
std::vector<proto::SlowServer> slow_servers(std::span<const proto::Verdict> verdicts,
                                            std::span<const model::ServerLife> servers);

}  // namespace kintsugi::monitoring
