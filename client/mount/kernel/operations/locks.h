/// Operations on the locks of fcntl(2) and flock(2).
#pragma once

#include "client/mount/kernel/operations/operation.h"

namespace kintsugi::mount::serve {

Handler get_lock;
Handler set_lock;
Handler wait_for_lock;

}  // namespace kintsugi::mount::serve
