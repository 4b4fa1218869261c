/// Finds what is wrong with a cluster, from what its daemons and its metaserver say.
#pragma once

#include <vector>

#include "client/cli/daemon_pages.h"
#include "client/cli/host_checks.h"
#include "common/proto/meta.pb.h"
#include "common/proto/sight.pb.h"

namespace kintsugi::cli {

/// Daemons that do not answer, programs of different versions, clocks that differ, certificates that expire, data that is
/// not whole, and a metaserver without room.
void judge_daemons(const std::vector<DaemonPages>& daemons, std::vector<Finding>& findings);
/// Servers that are not alive, whose disks failed, are sick or nearly full.
void judge_servers(const proto::ListServersResponse& servers, std::vector<Finding>& findings);
/// Alarms that are on.
void judge_alarms(const proto::DiagnoseResponse& answer, std::vector<Finding>& findings);

}  // namespace kintsugi::cli
