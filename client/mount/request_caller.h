#pragma once

#include "client/mount/kernel/file_system.h"
#include "common/proto/types.pb.h"

namespace kintsugi::mount {

/// Returns for whom the metaserver checks permissions. What only looks names up is checked by the kernel, which has the
/// answers cached anyway.
proto::Caller caller_of(const Caller& caller);

}  // namespace kintsugi::mount
