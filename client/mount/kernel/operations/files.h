/// Operations on open files, and those that open them.
#pragma once

#include "client/mount/kernel/operations/operation.h"

namespace kintsugi::mount::serve {

Handler open;
Handler create;
Handler create_nameless;
Handler read;
Handler write;
Handler flush;
Handler fsync;
Handler release;
Handler allocate;
Handler seek;
Handler copy_range;

}  // namespace kintsugi::mount::serve
