/// A server as people and repair managers see it.
#pragma once

#include "common/proto/meta.pb.h"
#include "metaserver/chunks/block_reports.h"
#include "metaserver/repair/rebalancer.h"
#include "metaserver/schema/transaction.h"
#include "metaserver/service/server_parts.h"

namespace kintsugi::metaserver {

/// REQUIRES: `server` is one of `servers`.
proto::ServerState server_state(const ServerRecord& server, const ServerParts& servers,
                                const BlockReports& reports, const Rebalancer& rebalancer,
                                const Reader& reader);

}  // namespace kintsugi::metaserver
