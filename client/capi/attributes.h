/// Attributes of inodes, as the C interface shows them.
#pragma once

#include "client/capi/connection.h"
#include "common/proto/types.pb.h"

namespace kintsugi::capi {

/// What the metaserver told, with what this connection has not written out yet. On the connection's thread.
void fill(struct kintsugi_stat& into, Connection& connection, const proto::Attributes& told);

}  // namespace kintsugi::capi
