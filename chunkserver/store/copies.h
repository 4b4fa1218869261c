/// Opens and removes one copy of a chunk, wherever on its disk it lies.
#pragma once

#include <memory>

#include <boost/asio/awaitable.hpp>

#include "chunkserver/store/chunk_index.h"
#include "chunkserver/store/disk/open_chunk.h"
#include "common/runtime/context.h"

namespace kintsugi::chunkserver {

/// Opens the copy for reading. Errors are those of open_chunk_file() and SegmentLog::open().
asio::awaitable<Result<std::shared_ptr<OpenChunk>>> open_copy(ChunkIndex::Entry entry);
/// Takes the copy off its disk, durably on return. kNotFound, kIoError. REQUIRES: the caller has the chunk's claim.
asio::awaitable<Status> remove_copy(Context context, ChunkIndex::Entry entry);

}  // namespace kintsugi::chunkserver
