#include "chunkserver/store/chunk_reader.h"

#include <algorithm>

#include "chunkserver/store/disk/disk_calls.h"
#include "chunkserver/store/disk/disk_wait.h"
#include "chunkserver/store/stored_chunks.h"
#include "common/base/crc32c.h"
#include "monitoring/sight/module.h"

namespace kintsugi::chunkserver {
namespace {

constexpr sight::Site kReadBlocks{"chunkserver.read_blocks", {"bytes"}};

/// The bytes are not what they must be, or cannot be read; what lies elsewhere on the disk may be well.
bool is_lost(Code code) {
  return code == Code::kCorrupt || code == Code::kMediumError;
}

/// Owns what it uses: it may continue after its caller, and the chunk's reader, have gone.
asio::awaitable<Result<size_t>> read_file(std::shared_ptr<OpenChunk> chunk, uint64_t offset, OwnedSpan into) {
  auto read = co_await chunk->file->read(offset, into.bytes);
  if (!read) co_return chunk->disk->note(read.error());
  co_return *read;
}

}  // namespace

uint64_t ChunkReader::bytes_of(uint64_t first_block, uint64_t end_block) const {
  return std::min(end_block * kBlockBytes, length()) - first_block * kBlockBytes;
}

std::span<const std::byte> ChunkReader::cached_block(uint64_t block) {
  const CachedCopy copy{chunk_->info.id, chunk_->generation, length()};
  const std::span<const std::byte> bytes = chunks_.cache().use(copy, block, purpose_ == ReadFor::kUser);
  if (bytes.empty() || crc32c(bytes) == chunk_->block_crcs[block]) return bytes;
  chunks_.cache().erase(chunk_->info.id);  // the copy in memory is damaged; the one on the disk is used
  return {};
}

bool ChunkReader::copy_cached(uint64_t block, std::span<std::byte> into) {
  const std::span<const std::byte> bytes = cached_block(block);
  if (bytes.empty()) return false;
  KINTSUGI_ASSERT(bytes.size() == into.size());
  std::ranges::copy(bytes, into.begin());
  return true;
}

void ChunkReader::count_use(uint64_t bytes) {
  if (purpose_ != ReadFor::kUser) return;
  chunks_.usage().read(chunk_->info.id, static_cast<double>(bytes) / static_cast<double>(length()));
}

std::span<const std::byte> ChunkReader::cached_bytes(uint64_t begin, uint64_t bytes) {
  const uint64_t block = begin / kBlockBytes;
  if (purpose_ == ReadFor::kVerification || (begin + bytes - 1) / kBlockBytes != block) return {};
  const std::span<const std::byte> all = cached_block(block);
  if (all.empty()) return {};
  count_use(all.size());
  return all.subspan(begin - block * kBlockBytes, bytes);
}

asio::awaitable<Result<ChunkReader::Blocks>> ChunkReader::read_blocks(Context context, uint64_t first_block,
                                                                      uint64_t count, OwnedSpan buffer) {
  if (first_block >= blocks() || count == 0) {
    co_return Status{Code::kInvalidArgument, fmt::format("chunk {} has {} blocks, no block {}",
                                                         chunk_->info.id, blocks(), first_block)};
  }
  const uint64_t end_block = first_block + std::min(count, blocks() - first_block);
  const uint64_t bytes = bytes_of(first_block, end_block);
  KINTSUGI_ASSERT(aligned(bytes) <= buffer.size());
  const auto place = [&](uint64_t block) {
    return buffer.bytes.subspan((block - first_block) * kBlockBytes, bytes_of(block, block + 1));
  };
  // From both ends, so that one read of the disk takes the rest; and copied before anything is waited for, because a
  // block that is in the cache now may be gone then.
  uint64_t from = first_block, to = end_block;
  if (purpose_ != ReadFor::kVerification) {
    while (from < to && copy_cached(from, place(from)))
      ++from;
    while (from < to && copy_cached(to - 1, place(to - 1)))
      --to;
  }
  count_use(bytes);
  if (from < to) {
    if (purpose_ != ReadFor::kVerification) chunks_.cache().missed(to - from, purpose_ == ReadFor::kUser);
    const uint64_t missing = bytes_of(from, to);
    const OwnedSpan into = buffer.subspan((from - first_block) * kBlockBytes, aligned(missing));
    KINTSUGI_CO_TRY(co_await read_from_disk(context, from, into, missing));
    if (purpose_ == ReadFor::kUser) {
      for (uint64_t block = from; block < to; ++block)
        chunks_.admit(*chunk_, block, place(block));
    }
  }
  co_return Blocks{buffer.bytes.first(bytes),
                   std::span(chunk_->block_crcs).subspan(first_block, blocks_of(bytes))};
}

asio::awaitable<Status> ChunkReader::read_from_disk(Context context, uint64_t first_block, OwnedSpan into,
                                                    uint64_t bytes) {
  sight::Module module{context, kReadBlocks, {double(bytes)}};
  if (Status answers = chunk_->disk->check_answers(); !answers.ok())
    co_return module.finish(std::move(answers));
  Status status = co_await read_and_check(module.context(), first_block, into, bytes);
  if (is_lost(status.code())) {
    // Once more: bytes that went wrong in memory or on the way may be right on the disk.
    status = co_await read_and_check(module.context(), first_block, into, bytes);
    if (is_lost(status.code())) chunks_.drop_corrupt(chunk_->info.id, chunk_->generation, status);
  }
  co_return module.finish(status.with_context(fmt::format("chunk {}", chunk_->info.id)));
}

asio::awaitable<Status> ChunkReader::read_and_check(Context context, uint64_t first_block, OwnedSpan into,
                                                    uint64_t bytes) {
  const uint64_t offset = chunk_->data_offset + first_block * kBlockBytes;
  disk_bytes_ += bytes;
  DiskWait wait(context, *chunk_->disk, {.read = bytes});
  auto read = co_await calls_.wait_for(*chunk_->disk, read_file(chunk_, offset, into));
  wait.stop();
  if (!read) co_return read.error();
  if (*read < bytes)
    co_return Status{Code::kCorrupt, fmt::format("block {}: the file is cut off", first_block)};
  co_return check_blocks(into.bytes.first(bytes),
                         std::span(chunk_->block_crcs).subspan(first_block, blocks_of(bytes)), first_block);
}

}  // namespace kintsugi::chunkserver
