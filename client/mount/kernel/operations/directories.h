/// Operations on open directories, and the one that opens them.
#pragma once

#include "client/mount/kernel/operations/operation.h"

namespace kintsugi::mount::serve {

Handler open_directory;
Handler read_directory;
Handler read_directory_plus;
Handler fsync_directory;
Handler release_directory;

}  // namespace kintsugi::mount::serve
