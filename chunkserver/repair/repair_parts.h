/// What the repair code of a server works with.
#pragma once

#include <list>

#include "chunkserver/repair/repair_pacer.h"
#include "chunkserver/store/chunk_store.h"
#include "common/rpc/client.h"
#include "common/runtime/buffer_pool.h"
#include "common/runtime/runtime.h"
#include "partial_sum/sum_range.h"

namespace kintsugi::chunkserver {

class TreeSum;
class RootRepair;

/// Trees that a server takes part in at a time; the repair manager keeps to a few dozen, the rest is for
/// degraded reads.
inline constexpr size_t kMaxTrees = 256;
/// Of their windows together, if all of them were full: 16 repairs that come here and 16 that are helped, all
/// of them unsliced and of the largest size.
inline constexpr uint64_t kMaxWindowBytes = 32 * partial_sum::kMaxSliceMemoryBytes;

/// Outlives every call. Whoever builds it fills `pacer.load` and sets its bandwidth; without that repairs
/// take all they can get.
struct RepairParts {
  const runtime::Runtime& runtime;
  ChunkStore& store;
  runtime::BufferPool& buffers;
  rpc::Client& client;
  RepairPacer pacer{runtime};
  std::list<TreeSum*> running = {};   ///< in the order in which they began
  std::list<RootRepair*> roots = {};  ///< chunks that are rebuilt here: repair_site.cc
  uint64_t window_bytes = 0;          ///< of those, counted against kMaxWindowBytes
  bool stopping = false;

  /// Ends all running trees, and those that begin later.
  void stop();
};

}  // namespace kintsugi::chunkserver
