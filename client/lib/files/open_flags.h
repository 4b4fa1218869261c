/// The flags of open(2).
#pragma once

#include <cstdint>

#include "common/base/status.h"

namespace kintsugi::client {

/// A file that is opened so is written to, or cut.
bool changes_file(int flags);
/// kReadOnly: a file in a snapshot would be opened to be changed. Asked when it is opened, for the metaserver hears of
/// what is written only later.
Status check_may_open(uint64_t inode, int flags);

}  // namespace kintsugi::client
