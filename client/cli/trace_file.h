/// A trace in the directory of another user, who may have put anything there in its place.
#pragma once

#include <string>

#include <sys/types.h>

#include "client/cli/descriptor.h"
#include "common/base/status.h"

namespace kintsugi::cli {

/// Opens a regular file of that user, and follows no link to it, so that root reads nobody else's file in its place. Waits
/// for nobody. Errors: kInvalidArgument when it is something else, or another user's; those of open().
Result<Descriptor> open_trace_of(const std::string& path, uid_t user);

/// A path to the very file that is open.
std::string path_of(const Descriptor& file);

}  // namespace kintsugi::cli
