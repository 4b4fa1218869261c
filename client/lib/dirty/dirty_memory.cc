#include "client/lib/dirty/dirty_memory.h"

#include <sys/mman.h>

#include "common/base/assert.h"

namespace kintsugi::client {

ProcessDirtyMemory::ProcessDirtyMemory(size_t bytes) {
  void* memory =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  KINTSUGI_ASSERT(memory != MAP_FAILED);
  region_ = {static_cast<std::byte*>(memory), bytes};
}

ProcessDirtyMemory::~ProcessDirtyMemory() {
  munmap(region_.data(), region_.size());
}

}  // namespace kintsugi::client
