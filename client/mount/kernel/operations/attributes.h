/// Operations on what is known of an inode, and of the file system.
#pragma once

#include "client/mount/kernel/operations/operation.h"

namespace kintsugi::mount::serve {

Handler lookup;
Handler get_attributes;
Handler set_attributes;
Handler read_link;
Handler space;

}  // namespace kintsugi::mount::serve
