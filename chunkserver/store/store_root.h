/// One disk of a ChunkStore with everything that lives on it.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "chunkserver/store/disk/data_disk.h"
#include "chunkserver/store/disk/identity.h"
#include "chunkserver/store/disk/limited_disk.h"
#include "chunkserver/store/disk/root_guard.h"
#include "chunkserver/store/segments/segment_log.h"
#include "common/runtime/event.h"

namespace kintsugi::chunkserver {

struct StoreRoot {
  StoreRoot(const runtime::Runtime& runtime, std::string path, SegmentLimits limits,
            uint64_t bytes_per_second, size_t buffers)
      : health(runtime.clock),
        device(runtime, health, bytes_per_second),
        disk(runtime, device, health, std::move(path), buffers),
        identity_turn(runtime, 1),
        guard(disk),
        segments(runtime, disk, limits) {}
  StoreRoot(const StoreRoot&) = delete;

  uint32_t position = 0;  ///< among the disks of the store, from 0 on
  DiskHealth health;
  LimitedDisk device;
  DataDisk disk;
  runtime::Semaphore identity_turn;  ///< whoever writes the identity has it
  RootGuard guard;
  SegmentLog segments;
  Identity identity;         ///< the identity as it stands on the disk
  bool saving_mark = false;  ///< the metadata's mark is being written to it
  size_t chunks = 0;         ///< chunks of this disk in the index; ChunkIndex counts them
  size_t steps = 0;          ///< steps of the start that have not ended; run_side_by_side() counts them
};

using StoreRoots = std::span<const std::unique_ptr<StoreRoot>>;

}  // namespace kintsugi::chunkserver
