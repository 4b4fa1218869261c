/// The settings of a chunk store.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "chunkserver/store/store_root.h"

namespace kintsugi::chunkserver {

struct StoreOptions {
  std::vector<std::string> disks;  ///< absolute paths of directories
  /// Key: path of one of `disks` that is missing at the start; value: why.
  std::map<std::string, std::string> missing_disks;
  SegmentLimits segments;
  uint64_t cache_bytes = 0;            ///< size of the cache of chunks; 0: none
  uint64_t disk_bytes_per_second = 0;  ///< limit for each disk's reads and writes; 0: none
  size_t buffers_per_disk = 1 << 20;   ///< DataDisk::share_of_buffers
};

/// The disk at this position of the options, with nothing known of what is on it.
inline std::unique_ptr<StoreRoot> make_root(const runtime::Runtime& runtime, const StoreOptions& options,
                                            size_t position) {
  auto root = std::make_unique<StoreRoot>(runtime, options.disks.at(position), options.segments,
                                          options.disk_bytes_per_second, options.buffers_per_disk);
  root->position = static_cast<uint32_t>(position);
  return root;
}

}  // namespace kintsugi::chunkserver
