/// Where bytes lie that were written and are not durable yet. A mount puts this memory where it outlives the process.
#pragma once

#include <cstddef>
#include <span>

namespace kintsugi::client {

/// One region of memory, all zero at the first use. DirtyBuffers keeps headers in it, from which another process that
/// is given the same region finds what was not durable (OpenFiles::recover).
class DirtyMemory {
 public:
  virtual ~DirtyMemory() = default;
  /// The same for the whole life of the object; aligned to 4 KiB.
  virtual std::span<std::byte> region() = 0;
};

/// Memory of this process, which takes space as it is used.
class ProcessDirtyMemory : public DirtyMemory {
 public:
  explicit ProcessDirtyMemory(size_t bytes);
  ~ProcessDirtyMemory() override;
  std::span<std::byte> region() override { return region_; }

 private:
  std::span<std::byte> region_;
};

}  // namespace kintsugi::client
