/// Which of a server's disks gets a new chunk.
#pragma once

#include "chunkserver/store/store_root.h"
#include "common/runtime/random.h"

namespace kintsugi::chunkserver {

/// The disk for a chunk that needs so many free bytes, among those that take new chunks. Each gets a share of the
/// chunks in proportion to its free room, less what is being written there; of two drawn so, the one with less to
/// write is taken. A slow disk gets none while another one has room. Without room anywhere it is the disk with the
/// most; null when none takes chunks.
StoreRoot* choose_disk(StoreRoots roots, uint64_t needed, runtime::Random& random);

}  // namespace kintsugi::chunkserver
