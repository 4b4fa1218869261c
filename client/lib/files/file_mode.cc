#include "client/lib/files/file_mode.h"

#include <sys/stat.h>

namespace kintsugi::client {

uint32_t type_bits(proto::Attributes::Type type) {
  switch (type) {
    case proto::Attributes::DIRECTORY: return S_IFDIR;
    case proto::Attributes::SYMLINK: return S_IFLNK;
    case proto::Attributes::FIFO: return S_IFIFO;
    case proto::Attributes::SOCKET: return S_IFSOCK;
    case proto::Attributes::CHARACTER_DEVICE: return S_IFCHR;
    case proto::Attributes::BLOCK_DEVICE: return S_IFBLK;
    default: return S_IFREG;
  }
}

}  // namespace kintsugi::client
