/// Marks a wait for a data disk, under the disk's name.
#pragma once

#include "chunkserver/store/disk/data_disk.h"
#include "common/runtime/span.h"

namespace kintsugi::chunkserver {

/// The bytes of chunks that are read from a disk by a request, or written to it.
struct DiskBytes {
  uint64_t read = 0, written = 0;
};

/// Lives while a coroutine waits for requests to the disk.
class DiskWait : public runtime::Wait {
 public:
  DiskWait(const Context& context, const DataDisk& disk, DiskBytes bytes = {},
           std::source_location where = std::source_location::current())
      : DiskWait(context, runtime::named_target(context, disk.root(), true), bytes, where) {}

 private:
  DiskWait(const Context& context, uint64_t target, DiskBytes bytes, std::source_location where)
      : Wait(context, runtime::WaitKind::kDisk, target, 0, 0, where) {
    runtime::count_bytes(context, target, bytes.read, bytes.written);
  }
};

}  // namespace kintsugi::chunkserver
