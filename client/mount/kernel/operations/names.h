/// Operations that make, remove and move names.
#pragma once

#include "client/mount/kernel/operations/operation.h"

namespace kintsugi::mount::serve {

Handler make_node;
Handler make_directory;
Handler symlink;
Handler link;
Handler unlink;
Handler remove_directory;
Handler rename;
Handler rename_with_flags;

}  // namespace kintsugi::mount::serve
