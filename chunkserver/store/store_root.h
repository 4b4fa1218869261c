/// One disk of a ChunkStore with everything that lives on it, and the choice among several.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "chunkserver/store/disk/data_disk.h"
#include "chunkserver/store/disk/identity.h"
#include "chunkserver/store/disk/limited_disk.h"
#include "chunkserver/store/disk/root_guard.h"
#include "chunkserver/store/segments/segment_log.h"

namespace kintsugi::chunkserver {

struct StoreRoot {
  StoreRoot(const runtime::Runtime& runtime, std::string path, SegmentLimits limits,
            uint64_t bytes_per_second)
      : device(runtime, bytes_per_second),
        disk(device, std::move(path)),
        guard(disk),
        segments(runtime, disk, limits) {}
  StoreRoot(const StoreRoot&) = delete;

  LimitedDisk device;
  DataDisk disk;
  RootGuard guard;
  SegmentLog segments;
  Identity identity;  ///< as it stands on the disk
};

using StoreRoots = std::span<const std::unique_ptr<StoreRoot>>;

/// The working disk with the most free space; null when none works.
inline StoreRoot* emptiest_root(StoreRoots roots) {
  StoreRoot* best = nullptr;
  for (const auto& root : roots) {
    if (root->disk.failed()) continue;
    if (best == nullptr || root->disk.free_bytes() > best->disk.free_bytes()) best = root.get();
  }
  return best;
}

}  // namespace kintsugi::chunkserver
