#include "chunkserver/store/chunk_reader.h"

#include "chunkserver/store/chunk_store.h"
#include "monitoring/sight/module.h"

namespace kintsugi::chunkserver {
namespace {

constexpr sight::Site kReadBlocks{"chunkserver.read_blocks", {"bytes"}};

}  // namespace

asio::awaitable<Result<ChunkReader::Blocks>> ChunkReader::read_blocks(Context context, uint64_t first_block,
                                                                      uint64_t count,
                                                                      runtime::Buffer& buffer) {
  if (first_block >= blocks() || count == 0) {
    co_return Status{Code::kInvalidArgument, fmt::format("chunk {} has {} blocks, no block {}",
                                                         chunk_->info.id, blocks(), first_block)};
  }
  uint64_t begin = first_block * kBlockBytes;
  uint64_t bytes = std::min(count * kBlockBytes, length() - begin);
  KINTSUGI_ASSERT(aligned(bytes) <= buffer.size());
  sight::Module module{context, kReadBlocks, {double(bytes)}};
  if (chunk_->disk->failed()) co_return module.finish({Code::kIoError, "the disk of the chunk failed"});
  Status status = co_await read_and_check(first_block, bytes, buffer);
  if (status.code() == Code::kCorrupt) {
    // Once more: what is wrong in memory or on the way may be right on the disk.
    status = co_await read_and_check(first_block, bytes, buffer);
    if (status.code() == Code::kCorrupt) store_->drop_corrupt(chunk_->info.id, chunk_->generation, status);
  }
  status = module.finish(status.with_context(fmt::format("chunk {}", chunk_->info.id)));
  if (!status.ok()) co_return status;
  co_return Blocks{buffer.first(bytes), std::span(chunk_->block_crcs).subspan(first_block, blocks_of(bytes))};
}

asio::awaitable<Status> ChunkReader::read_and_check(uint64_t first_block, uint64_t bytes,
                                                    runtime::Buffer& buffer) {
  uint64_t offset = chunk_->data_offset + first_block * kBlockBytes;
  auto read = co_await chunk_->file->read(offset, buffer.first(aligned(bytes)));
  if (!read) co_return chunk_->disk->note(read.error());
  if (*read < bytes)
    co_return Status{Code::kCorrupt, fmt::format("block {}: the file is cut off", first_block)};
  co_return check_blocks(buffer.first(bytes),
                         std::span(chunk_->block_crcs).subspan(first_block, blocks_of(bytes)), first_block);
}

}  // namespace kintsugi::chunkserver
