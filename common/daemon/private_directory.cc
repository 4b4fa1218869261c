#include "common/daemon/private_directory.h"

#include <cerrno>
#include <cstring>

#include <sys/stat.h>

#include "common/log/log.h"

namespace kintsugi::daemon {

void keep_private(const std::string& directory) {
  constexpr mode_t kOthers = 0077, kOwner = 0700;
  struct stat now{};
  if (::stat(directory.c_str(), &now) != 0 || !S_ISDIR(now.st_mode) || (now.st_mode & kOthers) == 0) return;
  if (::chmod(directory.c_str(), kOwner) == 0) {
    log::info("{} was open to other users (mode {:o}): now only the user of this daemon enters it", directory,
              now.st_mode & 07777);
  } else {
    log::warning(
        "{} is open to other users (mode {:o}) and its mode cannot be changed ({}): chmod it to 700, "
        "or they may read what is kept in it",
        directory, now.st_mode & 07777, std::strerror(errno));
  }
}

}  // namespace kintsugi::daemon
