#include "client/cli/descriptor.h"

#include <cerrno>

#include <unistd.h>

namespace kintsugi::cli {

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  if (this != &other) {
    (void)close();
    fd_ = std::exchange(other.fd_, -1);
  }
  return *this;
}

Status Descriptor::close() {
  const int fd = std::exchange(fd_, -1);
  if (fd > STDERR_FILENO && ::close(fd) != 0) return status_from_errno(errno, "close");
  return {};
}

}  // namespace kintsugi::cli
