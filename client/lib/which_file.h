/// Names a file to the metaserver: by path, or by the number of its inode.
#pragma once

#include <cstdint>
#include <string>

#include <fmt/format.h>

namespace kintsugi::client {

struct WhichFile {
  std::string path = {};
  uint64_t inode = 0;  ///< 0: the file is named by its path

  /// The name that messages show.
  std::string name() const { return inode != 0 ? fmt::format("inode {}", inode) : path; }
};

}  // namespace kintsugi::client
