#include "chunkserver/store/copies.h"

#include "chunkserver/store/disk/chunk_file.h"
#include "chunkserver/store/disk/disk_wait.h"
#include "chunkserver/store/store_root.h"

namespace kintsugi::chunkserver {

asio::awaitable<Result<std::shared_ptr<OpenChunk>>> open_copy(ChunkIndex::Entry entry) {
  if (entry.in_segment) co_return co_await entry.root->segments.open(entry.info.id);
  co_return co_await open_chunk_file(entry.root->disk, entry.info);
}

asio::awaitable<Status> remove_copy(Context context, ChunkIndex::Entry entry) {
  if (entry.in_segment) co_return co_await entry.root->segments.remove(context, entry.info.id);
  DiskWait wait(context, entry.root->disk);
  co_return wait.finish(co_await remove_chunk_file(entry.root->disk, entry.info));
}

}  // namespace kintsugi::chunkserver
