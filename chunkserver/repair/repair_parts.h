/// What the repair code of a server works with.
#pragma once

#include <list>

#include "chunkserver/repair/repair_pacer.h"
#include "chunkserver/store/chunk_store.h"
#include "common/rpc/client.h"
#include "common/runtime/buffer_pool.h"
#include "common/runtime/runtime.h"

namespace kintsugi::chunkserver {

class TreeSum;

/// Outlives every call. Whoever builds it fills `pacer.load` and sets its bandwidth; without that repairs
/// take all they can get.
struct RepairParts {
  const runtime::Runtime& runtime;
  ChunkStore& store;
  runtime::BufferPool& buffers;
  rpc::Client& client;
  RepairPacer pacer{runtime};
  std::list<TreeSum*> running = {};  ///< in the order in which they began
  bool stopping = false;

  /// Ends all running trees, and those that begin later.
  void stop();
};

}  // namespace kintsugi::chunkserver
