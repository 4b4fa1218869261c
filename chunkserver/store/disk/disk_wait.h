/// Marks a wait for a data disk, under the disk's name.
#pragma once

#include "chunkserver/store/disk/data_disk.h"
#include "common/runtime/span.h"

namespace kintsugi::chunkserver {

/// Lives while a coroutine waits for requests to the disk.
class DiskWait : public runtime::Wait {
 public:
  DiskWait(const Context& context, const DataDisk& disk,
           std::source_location where = std::source_location::current())
      : Wait(context, runtime::WaitKind::kDisk, runtime::named_target(context, disk.root(), true), 0, 0,
             where) {}
};

}  // namespace kintsugi::chunkserver
