#include "client/cli/trace_file.h"

#include <cerrno>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include "client/cli/printable.h"

namespace kintsugi::cli {

Result<Descriptor> open_trace_of(const std::string& path, uid_t user) {
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat about{};
  if (file.get() < 0 || ::fstat(file.get(), &about) != 0) return status_from_errno(errno, path);
  if (!S_ISREG(about.st_mode) || about.st_uid != user)
    return Status{Code::kInvalidArgument,
                  fmt::format("{} is no regular file of user {}: it was left alone", shown_name(path), user)};
  return file;
}

std::string path_of(const Descriptor& file) {
  return fmt::format("/proc/self/fd/{}", file.get());
}

}  // namespace kintsugi::cli
