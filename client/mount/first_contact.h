/// Asks the metaserver once before anything is mounted: a directory that nobody answers for helps nobody.
#pragma once

#include "client/mount/mount_arguments.h"
#include "common/base/status.h"
#include "common/rpc/secret.h"

namespace kintsugi::mount {

/// Tries for MountArguments::wait, in a process of its own, since the caller has to stay without threads.
/// kUnavailable: nobody answers; else what the metaserver, or whoever is there, objects to.
Status check_metaserver(const MountArguments& arguments, const rpc::Secret& secret);

}  // namespace kintsugi::mount
