/// The directory in which a daemon keeps what only its user may read.
#pragma once

#include <string>

namespace kintsugi::daemon {

/// Takes the rights of everybody but the owner from a directory that is there, and says so in the log. What lies in it
/// is closed with it, whatever its own mode is. A directory that is not there stays so, since a daemon makes its own
/// closed; one whose mode cannot be changed is a warning.
void keep_private(const std::string& directory);

}  // namespace kintsugi::daemon
