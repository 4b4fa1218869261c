/// chmod, chown, utimens and truncate.
#pragma once

#include "metaserver/namespace/inodes.h"

namespace kintsugi::metaserver::ops {

/// A file that is cut off by very many extents is to be cut in steps (Cuts).
Status set_attributes(const Inodes& inodes, Transaction& transaction, const Caller& caller,
                      const proto::SetAttributesRequest& request, FreedStripes& freed);

}  // namespace kintsugi::metaserver::ops
