/// Daemons as people name them on the command line: servers, and the metaserver.
#pragma once

#include <optional>
#include <string>

#include "client/lib/blocking_client.h"
#include "common/base/status.h"
#include "common/runtime/network.h"

namespace kintsugi::cli {

/// The address of a server's name, number or host:port, or of a mount of this host by its directory or "pid:NUMBER"; none for
/// "metaserver". Mounts are known to the monitor.
Result<std::optional<runtime::Endpoint>> find_daemon(client::BlockingClient& client,
                                                     const std::string& where);

}  // namespace kintsugi::cli
