/// A chunk that is open for reading, wherever it lives.
#pragma once

#include <memory>
#include <vector>

#include "chunkserver/store/disk/chunk_info.h"
#include "chunkserver/store/disk/data_disk.h"
#include "common/runtime/disk.h"

namespace kintsugi::chunkserver {

/// Shared by readers and the cache of open chunks. Stays readable when the chunk is removed meanwhile: the file
/// is open.
struct OpenChunk {
  ChunkInfo info;
  DataDisk* disk = nullptr;
  std::shared_ptr<runtime::File> file;
  uint64_t data_offset = 0;          ///< offset of the chunk in `file`
  std::vector<uint32_t> block_crcs;  ///< verified against info.crc
  uint64_t generation = 0;           ///< ChunkIndex::Entry::generation of the copy
};

}  // namespace kintsugi::chunkserver
