/// Operations on extended attributes.
#pragma once

#include "client/mount/kernel/operations/operation.h"

namespace kintsugi::mount::serve {

Handler set_xattr;
Handler get_xattr;
Handler list_xattrs;
Handler remove_xattr;

}  // namespace kintsugi::mount::serve
